// Strided convolutions with windows of one pixel and no padding, as in the shortcuts of residual nets: the pixels that
// they read are copied to a smaller image, over which the convolution has stride 1.
#pragma once

#include <array>

#include "nixie/backends/cpu/contract/operand.h"

namespace nixie::cpu {

inline bool passes_pixels_over(const Conv& conv, const Shape& filters) {
  const auto all_are = [](const std::vector<int>& values, int value) {
    return std::all_of(values.begin(), values.end(), [&](int each) { return each == value; });
  };
  return std::all_of(filters.begin() + 2, filters.end(), [](std::int64_t size) { return size == 1; }) &&
         all_are(conv.pad, 0) && !all_are(conv.stride, 1);
}

/// The roles output and filter_grad with `x` the image's place among the two operands, `y` the shape of the result or
/// its gradient: calls run(conv, operands) with a convolution that sees every pixel.
template <class T, class Run>
void over_seen_pixels(const Conv& conv, std::span<const BoundOperand> operands, std::size_t x, const Shape& y,
                      ThreadPool& pool, const Run& run) {
  std::vector<std::int64_t> sizes(y.begin(), y.end());
  sizes[1] = operands[x].shape[1];
  Strides strides = operands[x].strides;
  for (std::size_t axis = 2; axis < sizes.size(); ++axis) strides[axis] *= conv.stride[axis - 2];
  const Shape shape(sizes);
  const Strides dense = shape.row_major();
  const Scratch<T> pixels(shape.size());
  auto* const bytes = reinterpret_cast<std::byte*>(pixels.data());
  convert_operand({operands[x].data, operands[x].dtype, shape, strides}, compute_type_of<T>(), bytes, pool);
  Conv plain = conv;
  plain.stride.assign(conv.stride.size(), 1);
  const BoundOperand seen{bytes, compute_type_of<T>(), shape, dense};
  run(plain, x == 0 ? std::array{seen, operands[1]} : std::array{operands[0], seen});
}

}  // namespace nixie::cpu
