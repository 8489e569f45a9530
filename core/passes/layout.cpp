// Layout: on targets that ask for it, channels-last for images, values computed from them, and Variables; row-major for
// everything else.
#include "nixie/core/passes/layout.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/storage.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {

namespace {

bool is_among(const Axes& axes, int axis) { return std::ranges::count(axes, axis) > 0; }

// The axes of a reshape that hold the channels of what it reshapes; none where they meet other axes.
Axes reshaped_channels(const Shape& from, const Axes& channels, const Shape& to) {
  Axes result;
  for (int i = 0, j = 0; i < from.rank() && j < to.rank();) {
    // A run of axes of both with equal products.
    const int first_i = i, first_j = j;
    std::int64_t left = from[i++], right = to[j++];
    while (left != right) {
      if ((left < right ? i == from.rank() : j == to.rank())) return {};
      left < right ? left *= from[i++] : right *= to[j++];
    }
    const auto is_channel = [&](int axis) { return from[axis] == 1 || is_among(channels, axis); };
    bool all = true, any = false;
    for (int axis = first_i; axis < i; ++axis) all &= is_channel(axis), any |= is_among(channels, axis);
    if (any && !all) return {};
    for (int axis = first_j; any && axis < j; ++axis) result.push_back(axis);
  }
  return result;
}

Axes permuted_channels(const Permute& permute, const Axes& channels) {
  Axes result;
  for (int axis = 0; axis < static_cast<int>(permute.order.size()); ++axis)
    if (is_among(channels, permute.order[at(axis)])) result.push_back(axis);
  return result;
}

// Whether images whose channels are the last axis of a row-major array are seen with channels as axis 1.
bool brings_channels_forward(const Permute& permute) {
  const int rank = static_cast<int>(permute.order.size());
  for (int axis = 0; axis < rank; ++axis)
    if (permute.order[at(axis)] != (axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1)) return false;
  return rank >= 4;
}

// Whether channels last are another order of elements than row-major.
bool tells_orders_apart(const Shape& shape, const Axes& channels) {
  bool after_channels = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    if (is_among(channels, axis))
      after_channels = true;
    else if (after_channels)
      return true;
  }
  return false;
}

// Those of an input of this rank that has most.
Axes channels_like_inputs(const Layout& layout, const Tensor& x) {
  Axes channels;
  for (const Tensor& input : x.inputs())
    if (Axes of = input.rank() == x.rank() ? layout.channel_axes(input) : Axes{}; of.size() > channels.size())
      channels = std::move(of);
  return channels;
}

Axes channels_of(const Layout& layout, const Tensor& x) {
  const auto where_it_matters = [&](Axes channels) {
    return tells_orders_apart(x.shape(), channels) ? std::move(channels) : Axes{};
  };
  return std::visit(
      overloaded{
          []<OneOf<Conv, Pool> T>(const T&) { return Axes{1}; },
          [&](const RoundedProduct& op) { return product_in<Conv>(Op(op)) ? Axes{1} : Axes{}; },
          [](const Input& input) {
            const bool is_variable =
                input.variable || input.has_variable_layout || (input.storage && input.storage->of_variable());
            return is_variable ? Axes{1} : Axes{};
          },
          [&]<OneOf<Map, Concat> T>(const T&) { return channels_like_inputs(layout, x); },
          [&]<OneOf<Reduce, Expand, Slice, Pad, Collective> T>(const T&) {
            return where_it_matters(channels_like_inputs(layout, x));
          },
          [&](const Reshape&) {
            const Tensor& from = x.inputs()[0];
            return where_it_matters(reshaped_channels(from.shape(), layout.channel_axes(from), x.shape()));
          },
          [&](const Permute& permute) {
            const Tensor& from = x.inputs()[0];
            const Axes channels = layout.channel_axes(from);
            if (channels.empty() && is_a<Input>(from) && brings_channels_forward(permute)) return where_it_matters({1});
            return permuted_channels(permute, channels);
          },
          []<OneOf<Constant, Coordinate, Gather, Scatter, ArgSort, Scan, Random, Matmul> T>(const T&) {
            return Axes{};
          },
      },
      x.node().op);
}

// Lets a concat that a convolution reads, through views or as it is, have channels last as well: it is stored anyway.
void lay_out_read_concat(Layout& layout, Tensor x) {
  Axes channels{1};
  for (; !channels.empty() && is_view(x); x = x.inputs()[0]) {
    const Shape& from = x.inputs()[0].shape();
    if (is_a<Reshape>(x)) {
      channels = reshaped_channels(x.shape(), channels, from);
    } else if (const auto* permute = op_as<Permute>(x)) {
      for (int& axis : channels) axis = permute->order[at(axis)];
    } else {
      return;
    }
  }
  if (is_a<Concat>(x) && layout.channel_axes(x).empty()) layout.set_channel_axes(x, std::move(channels));
}

}  // namespace

Axes Layout::channel_axes(const Tensor& x) const {
  const auto found = channel_axes_.find(x.id());
  return found == channel_axes_.end() ? Axes{} : found->second;
}

Strides Layout::strides(const Tensor& x) const {
  const Axes channels = channel_axes(x);
  const Shape& shape = x.shape();
  Strides strides(at(shape.rank()), 1);
  std::int64_t step = 1;
  for (const bool of_channels : {true, false})
    for (int axis = shape.rank() - 1; axis >= 0; --axis)
      if (is_among(channels, axis) == of_channels) {
        strides[at(axis)] = step;
        step *= shape[axis];
      }
  return strides;
}

bool has_variable_layout(const Tensor& output) {
  const Node* node = &output.node();
  while ((is_a<Map>(node->op) && !node->inputs.empty()) || is_view(node->op)) node = node->inputs[0].id();
  const auto* conv = product_in<Conv>(node->op);
  return conv && conv->role == ConvRole::filter_grad;
}

Layout choose_layout(const Graph& graph, const Target& target) {
  Layout layout(target);
  if (!target.channels_last) return layout;
  for (const Tensor& x : topological(graph))
    if (x.rank() >= 3)
      if (Axes channels = channels_of(layout, x); !channels.empty()) layout.set_channel_axes(x, std::move(channels));
  for (const Tensor& x : topological(graph))
    if (product_in<Conv>(x.node().op))
      for (const Tensor& input : x.inputs()) lay_out_read_concat(layout, input);
  return layout;
}

}  // namespace nixie
