// The rows of an array along an axis: their first elements, in row-major order of the other axes.
#pragma once

#include "nixie/core/base/shape.h"

namespace nixie::cpu {

/// The offset of each row, [outer, inner] in row-major order.
class Rows {
 public:
  Rows(const Shape& shape, int axis) : shape_(shape), axis_(axis) {}
  std::int64_t count() const {
    std::int64_t count = 1;
    for (int i = 0; i < shape_.rank(); ++i)
      if (i != axis_) count *= shape_[i];
    return count;
  }
  std::int64_t offset(std::int64_t row, const Strides& strides) const {
    std::int64_t offset = 0;
    for (int i = shape_.rank() - 1; i >= 0; --i) {
      if (i == axis_) continue;
      offset += row % shape_[i] * strides[static_cast<std::size_t>(i)];
      row /= shape_[i];
    }
    return offset;
  }

 private:
  const Shape& shape_;
  int axis_;
};

}  // namespace nixie::cpu
