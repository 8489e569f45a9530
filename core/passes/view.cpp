// View: composes view ops into strides.
#include "nixie/core/passes/view.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"

namespace nixie {
namespace {

using Bounds = std::vector<std::pair<std::int64_t, std::int64_t>>;

Bounds bounds_of(const View& view) {
  if (!view.inside.empty()) return view.inside;
  Bounds bounds;
  for (std::int64_t size : view.shape) bounds.emplace_back(0, size);
  return bounds;
}

// Cuts bounds back to the shape, where a later padding would move them in, and drops those that exclude nothing.
View tidy(View view) {
  bool all = true;
  for (std::size_t i = 0; i < view.inside.size(); ++i) {
    const std::int64_t size = view.shape.sizes()[i];
    auto& [low, high] = view.inside[i];
    low = std::clamp<std::int64_t>(low, 0, size);
    high = std::clamp<std::int64_t>(high, 0, size);
    all &= low == 0 && high == size;
  }
  if (all) {
    view.inside.clear();
    view.fill = 0;
  }
  return view;
}

std::optional<View> expanded(const View& view, const Shape& shape) {
  View result = view;
  result.shape = shape;
  for (std::size_t i = 0; i < view.strides.size(); ++i) {
    if (view.shape.sizes()[i] == shape.sizes()[i]) continue;
    result.strides[i] = 0;
    if (!view.inside.empty() && view.inside[i] == std::pair<std::int64_t, std::int64_t>{0, 1})
      result.inside[i] = {0, shape.sizes()[i]};
    else if (!view.inside.empty() && view.inside[i].first >= view.inside[i].second)
      result.inside[i] = {0, 0};
  }
  return tidy(std::move(result));
}

std::optional<View> permuted(const View& view, const Permute& op, const Shape& shape) {
  View result{.shape = shape, .offset = view.offset, .fill = view.fill};
  for (int axis : op.order) {
    result.strides.push_back(view.strides[at(axis)]);
    if (!view.inside.empty()) result.inside.push_back(view.inside[at(axis)]);
  }
  return result;
}

std::optional<View> sliced(const View& view, const Slice& op, const Shape& shape) {
  View result{.shape = shape, .offset = view.offset, .fill = view.fill};
  const Bounds bounds = bounds_of(view);
  for (std::size_t i = 0; i < view.strides.size(); ++i) {
    const std::int64_t start = op.start[i], step = op.step[i];
    result.offset += start * view.strides[i];
    result.strides.push_back(view.strides[i] * step);
    // The positions p for which start + p * step is inside.
    const auto [low, high] = bounds[i];
    if (step > 0)
      result.inside.emplace_back(ceil_div(low - start, step), ceil_div(high - start, step));
    else
      result.inside.emplace_back(ceil_div(start - high + 1, -step), ceil_div(start - low + 1, -step));
  }
  return tidy(std::move(result));
}

std::optional<View> padded(const View& view, const Pad& op, const Shape& shape) {
  if (!view.inside.empty() && view.fill != op.value) return {};
  View result{.shape = shape, .offset = view.offset, .strides = view.strides, .fill = op.value};
  const Bounds bounds = bounds_of(view);
  for (std::size_t i = 0; i < view.strides.size(); ++i) {
    result.offset -= op.low[i] * view.strides[i];
    result.inside.emplace_back(bounds[i].first + op.low[i], bounds[i].second + op.low[i]);
  }
  return tidy(std::move(result));
}

// Walks both shapes from the end, matching runs of axes with equal products; a run can be regrouped when it is dense in
// itself. Axes of size 1 match anything.
std::optional<View> reshaped(const View& view, const Shape& shape) {
  View result{.shape = shape, .offset = view.offset, .strides = Strides(shape.sizes().size(), 0), .fill = view.fill};
  if (shape.size() == 0) return result;
  if (!view.inside.empty())
    for (std::int64_t size : shape) result.inside.emplace_back(0, size);
  const auto& from = view.shape.sizes();
  const auto& to = shape.sizes();
  auto i = static_cast<std::int64_t>(from.size()) - 1, j = static_cast<std::int64_t>(to.size()) - 1;
  auto bounded = [&](std::int64_t axis) {
    if (view.inside.empty()) return false;
    const auto& [low, high] = view.inside[at(axis)];
    return low > 0 || high < from[at(axis)];
  };
  while (i >= 0 || j >= 0) {
    if (i >= 0 && from[at(i)] == 1 && !bounded(i)) {
      --i;
      continue;
    }
    if (j >= 0 && to[at(j)] == 1) {
      --j;
      continue;
    }
    if (i < 0 || j < 0) return {};
    const auto at_i = at(i), at_j = at(j);
    if (from[at_i] == to[at_j]) {
      result.strides[at_j] = view.strides[at_i];
      if (!view.inside.empty()) result.inside[at_j] = view.inside[at_i];
      --i, --j;
      continue;
    }
    // A run: grow both sides until the products match.
    std::int64_t left = from[at_i], right = to[at_j], first_i = i, first_j = j;
    while (left != right) {
      if (left < right) {
        if (--first_i < 0) return {};
        const std::int64_t size = from[at(first_i)];
        if (size != 1 && view.strides[at(first_i)] != left * view.strides[at_i]) return {};
        left *= size;
      } else {
        if (--first_j < 0) return {};
        right *= to[at(first_j)];
      }
    }
    for (std::int64_t axis = first_i; axis <= i; ++axis)
      if (bounded(axis)) return {};
    std::int64_t stride = view.strides[at_i];
    for (std::int64_t axis = j; axis >= first_j; --axis) {
      result.strides[at(axis)] = stride;
      stride *= to[at(axis)];
    }
    i = first_i - 1, j = first_j - 1;
  }
  return tidy(std::move(result));
}

}  // namespace

View whole(const Shape& shape, const Strides& strides) { return {.shape = shape, .strides = strides}; }

bool reads_nothing(const View& view) {
  return std::ranges::any_of(view.inside, [](const auto& of) { return of.first >= of.second; });
}

std::optional<View> compose(const View& view, const Op& op, const Shape& shape) {
  return std::visit(overloaded{
                        [&](const Expand&) { return expanded(view, shape); },
                        [&](const Reshape&) { return reshaped(view, shape); },
                        [&](const Permute& permute) { return permuted(view, permute, shape); },
                        [&](const Slice& slice) { return sliced(view, slice, shape); },
                        [&](const Pad& pad) { return padded(view, pad, shape); },
                        []<OneOf<Constant, Input, Map, Coordinate, Reduce, Concat, Gather, Scatter, ArgSort, Scan,
                                 Random, Matmul, Conv, RoundedProduct, Pool, Collective>
                               T>(const T&) { return std::optional<View>{}; },
                    },
                    op);
}

}  // namespace nixie
