// View: a chain of expands, reshapes, permutes, slices and pads as one strided access to stored elements.
#pragma once

#include <optional>

#include "nixie/core/graph/plan.h"
#include "nixie/core/graph/tensor.h"

namespace nixie {

/// Maps positions of `shape` to stored elements; like Access, without the slot.
struct View {
  Shape shape = {};
  std::int64_t offset = 0;
  Strides strides = {};
  std::vector<std::pair<std::int64_t, std::int64_t>> inside = {};  ///< empty: all inside
  double fill = 0;
};

/// The whole of a dense array with these strides.
View whole(const Shape& shape, const Strides& strides);

/// Whether every position is outside, so that all are `fill`: of padding alone.
bool reads_nothing(const View& view);

/// The view after another view op, whose node has this shape; none if strides cannot express it (a reshape of a
/// transposed array, two pads with different values).
std::optional<View> compose(const View& view, const Op& op, const Shape& shape);

}  // namespace nixie
