// View: a chain of expands, reshapes, permutes, slices and pads seen as one strided walk over stored elements.
#pragma once

#include <optional>

#include "nixie/core/graph/plan.h"
#include "nixie/core/graph/tensor.h"

namespace nixie {

/// How positions of `shape` walk over the elements of something stored; as Access, without the slot.
struct View {
  Shape shape = {};
  std::int64_t offset = 0;
  Strides strides = {};
  std::vector<std::pair<std::int64_t, std::int64_t>> inside = {};  ///< empty: all inside
  double fill = 0;
};

/// Everything of a dense array with these strides.
View whole(const Shape& shape, const Strides& strides);

/// The view after one more view op, whose node has this shape; none when strides cannot say it (a reshape of a
/// transposed array, two pads with different values, a strided slice of a pad).
std::optional<View> compose(const View& view, const Op& op, const Shape& shape);

}  // namespace nixie
