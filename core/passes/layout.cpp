// Layout: on targets that ask for it, channels-last for images, values computed from them, and Variables; row-major for
// everything else.
#include "nixie/core/passes/layout.h"

#include <algorithm>

#include "nixie/core/graph/storage.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {

namespace {

std::int64_t product(const Shape& shape, int first, int last) {
  std::int64_t size = 1;
  for (int axis = first; axis < last; ++axis) size *= shape[axis];
  return size;
}

// The axes of a reshape that hold the channels of what it reshapes; none where they meet other axes.
int reshaped_channels(const Shape& from, int channels, const Shape& to) {
  if (to.rank() < 3 || to[0] != from[0]) return 0;
  const std::int64_t wanted = product(from, 1, 1 + channels);
  for (int count = 1; count < to.rank(); ++count)
    if (product(to, 1, 1 + count) == wanted) return count;
  return 0;
}

bool permutes_channels(const Permute& permute, int channels) {
  for (int axis = 0; axis < static_cast<int>(permute.order.size()); ++axis) {
    const int from = permute.order[static_cast<std::size_t>(axis)];
    const bool inside = 1 <= axis && axis <= channels;
    if (inside ? from < 1 || from > channels : from != axis) return false;
  }
  return true;
}

// Whether images whose channels are the last axis of a row-major array are seen with channels as axis 1.
bool brings_channels_forward(const Permute& permute) {
  const int rank = static_cast<int>(permute.order.size());
  for (int axis = 0; axis < rank; ++axis)
    if (permute.order[static_cast<std::size_t>(axis)] != (axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1))
      return false;
  return rank >= 4;
}

// Whether channels-last is another order of elements than row-major.
bool tells_orders_apart(const Shape& shape, int channels) {
  return product(shape, 1, 1 + channels) > 1 && product(shape, 1 + channels, shape.rank()) > 1;
}

// As many as an input of this rank has; none where elements are in the same order anyway.
int channels_like_inputs(const Layout& layout, const Tensor& x) {
  int channels = 0;
  for (const Tensor& input : x.inputs())
    if (input.rank() == x.rank()) channels = std::max(channels, layout.channel_axes(input));
  return channels;
}

int channels_of(const Layout& layout, const Tensor& x) {
  const auto where_it_matters = [&](int channels) { return tells_orders_apart(x.shape(), channels) ? channels : 0; };
  return std::visit(
      overloaded{
          []<OneOf<Conv, Pool> T>(const T&) { return 1; },
          [](const Input& input) {
            return input.variable || input.has_variable_layout || (input.storage && input.storage->of_variable()) ? 1
                                                                                                                  : 0;
          },
          [&]<OneOf<Map, Concat> T>(const T&) { return channels_like_inputs(layout, x); },
          [&]<OneOf<Reduce, Expand, Slice, Pad, Collective> T>(const T&) {
            return where_it_matters(channels_like_inputs(layout, x));
          },
          [&](const Reshape&) {
            const Tensor& from = x.inputs()[0];
            const int channels = layout.channel_axes(from);
            return channels > 0 ? where_it_matters(reshaped_channels(from.shape(), channels, x.shape())) : 0;
          },
          [&](const Permute& permute) {
            const Tensor& from = x.inputs()[0];
            const int channels = layout.channel_axes(from);
            if (channels == 0 && std::holds_alternative<Input>(from.node().op) && brings_channels_forward(permute))
              return where_it_matters(1);
            return permutes_channels(permute, channels) ? channels : 0;
          },
          []<OneOf<Constant, Coordinate, Gather, Scatter, ArgSort, Scan, Random, Matmul> T>(const T&) { return 0; },
      },
      x.node().op);
}

}  // namespace

int Layout::channel_axes(const Tensor& x) const {
  const auto found = channel_axes_.find(x.id());
  return found == channel_axes_.end() ? 0 : found->second;
}

Strides Layout::strides(const Tensor& x) const {
  const int channels = channel_axes(x);
  const Shape& shape = x.shape();
  if (channels == 0) return shape.row_major();
  Strides strides(static_cast<std::size_t>(shape.rank()), 1);
  std::int64_t step = 1;
  const auto take = [&](int axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    step *= shape[axis];
  };
  for (int axis = channels; axis > 0; --axis) take(axis);
  for (int axis = shape.rank() - 1; axis > channels; --axis) take(axis);
  take(0);
  return strides;
}

bool has_variable_layout(const Tensor& output) {
  const Node* node = &output.node();
  while (std::holds_alternative<Map>(node->op) && node->inputs.size() == 1) node = node->inputs[0].id();
  const auto* conv = std::get_if<Conv>(&node->op);
  return conv && conv->role == ConvRole::filter_grad;
}

Layout choose_layout(const Graph& graph, const Target& target) {
  Layout layout(target);
  if (!target.channels_last) return layout;
  for (const Tensor& x : topological(graph))
    if (x.rank() >= 3)
      if (const int channels = channels_of(layout, x); channels > 0) layout.set_channel_axes(x, channels);
  return layout;
}

}  // namespace nixie
