// Fold: views of arrays of one or three spatial axes as images, which have two, and ops on arrays as ops on these
// images.
#pragma once

#include <array>
#include <optional>

#include "nixie/core/graph/tensor.h"

namespace nixie {

/// The axes of an array that each axis of an image [N, C, H, W] takes, slowest first: none is an axis of size 1.
struct Fold {
  std::array<Axes, 4> axes = {};
  bool operator==(const Fold&) const = default;
  /// Whether elements keep their row-major order.
  bool keeps_order() const;
};

/// Signals [N, C, W] as images of one row; volumes [N, C, D, H, W] as planes [N * D, C, H, W], and as images
/// [N, C, D, H * W] whose columns are all pixels of a plane.
inline const Fold kRows{{{{0}, {1}, {}, {2}}}}, kPlanes{{{{0, 2}, {1}, {3}, {4}}}}, kColumns{{{{0}, {1}, {2}, {3, 4}}}};

Shape folded(const Fold& fold, const Shape& shape);
Tensor folded(const Fold& fold, const Tensor& x);
/// The array of this shape whose image is y.
Tensor unfolded(const Fold& fold, const Tensor& y, const Shape& shape);

/// The op on images that is x's op on arrays, as folded(op(arrays)) = op(folded(arrays)); none where there is none.
std::optional<Op> folded_op(const Fold& fold, const Tensor& x);

}  // namespace nixie
