// Windows of a pooling over an image's axes, and the rows that they take from it.
#pragma once

#include <array>
#include <vector>

#include "nixie/backends/cpu/contract/operand.h"

namespace nixie::cpu {

inline constexpr int kAxes = 4;  // channels, depth, height, width: pooled axes, those absent of size 1
using Extents = std::array<std::int64_t, kAxes>;
struct Range {  ///< [low, high)
  std::int64_t low, high;
};

/// Windows over the four axes of each image.
struct Windows {
  std::int64_t batch;
  Extents in, out, window, stride, pad, dilation;
  std::int64_t window_size() const { return window[0] * window[1] * window[2] * window[3]; }
  std::int64_t out_size() const { return out[0] * out[1] * out[2] * out[3]; }
  /// The first position of the window of output `o`.
  std::int64_t start(int axis, std::int64_t o) const {
    const auto a = static_cast<std::size_t>(axis);
    return o * stride[a] - pad[a];
  }
  /// Position `i` of that window.
  std::int64_t place(int axis, std::int64_t o, std::int64_t i) const {
    return start(axis, o) + i * dilation[static_cast<std::size_t>(axis)];
  }
  /// From a window's first position to its last, both included.
  std::int64_t extent(std::size_t a) const { return dilation[a] * (window[a] - 1) + 1; }
  /// Positions of the window of output `o` that are inside the input.
  Range inside(int axis, std::int64_t o) const {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t begin = start(axis, o);
    return {begin < 0 ? ceil_div(-begin, dilation[a]) : 0, std::min(window[a], ceil_div(in[a] - begin, dilation[a]))};
  }
  /// Columns of the output whose window's column `i` is inside the input.
  Range columns(std::int64_t i) const {
    const std::int64_t before = pad[3] - i * dilation[3];
    const std::int64_t low = std::max<std::int64_t>(0, before), high = in[3] - 1 + before;
    return {ceil_div(low, stride[3]), high < 0 ? 0 : std::min(out[3], high / stride[3] + 1)};
  }
};

inline Extents four_axes(const Shape& shape, std::int64_t batch_axes) {
  Extents extents{1, 1, 1, 1};
  const int spatial = shape.rank() - static_cast<int>(batch_axes) - 1;
  extents[0] = shape[static_cast<int>(batch_axes)];
  for (int i = 0; i < spatial; ++i) extents[static_cast<std::size_t>(kAxes - spatial + i)] = shape[2 + i];
  return extents;
}

/// A per-axis option of the op (channels, then spatial) on the four axes.
inline Extents four_options(const std::vector<int>& values, std::int64_t absent) {
  Extents extents{values[0], absent, absent, absent};
  const std::size_t spatial = values.size() - 1;
  for (std::size_t i = 0; i < spatial; ++i) extents[kAxes - spatial + i] = values[1 + i];
  return extents;
}

inline Windows windows_of(const Pool& op, const Shape& in, const Shape& out) {
  return {in[0],
          four_axes(in, 1),
          four_axes(out, 1),
          four_options(op.window, 1),
          four_options(op.stride, 1),
          four_options(op.pad, 0),
          op.dilation.empty() ? Extents{1, 1, 1, 1} : four_options(op.dilation, 1)};
}

/// An operand's strides on the batch and the four axes.
template <class T>
struct PooledView {
  explicit PooledView(const Strided<T>& operand) : data(operand.data()), batch(operand.stride(0)), axis{} {
    const int spatial = operand.shape().rank() - 2;
    axis[0] = operand.stride(1);
    for (int i = 0; i < spatial; ++i) axis[static_cast<std::size_t>(kAxes - spatial + i)] = operand.stride(2 + i);
  }
  /// The first element of a row along the width.
  const T* row(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h) const {
    return data + n * batch + c * axis[0] + d * axis[1] + h * axis[2];
  }
  const T* data;
  std::int64_t batch;
  Extents axis;
};

/// One output row: image, channel, depth and height.
struct Row {
  std::int64_t n, c, d, h;
};

/// Calls `visit(row, flat)` for the output rows of units [first, last), a unit being the planes of one channel.
template <class Visit>
void for_each_row(const Windows& w, std::int64_t first, std::int64_t last, const Visit& visit) {
  for (std::int64_t unit = first; unit < last; ++unit)
    for (std::int64_t d = 0; d < w.out[1]; ++d)
      for (std::int64_t h = 0; h < w.out[2]; ++h)
        visit(Row{unit / w.out[0], unit % w.out[0], d, h}, ((unit * w.out[1] + d) * w.out[2] + h) * w.out[3]);
}

/// Calls `visit(c, d, h, position)` for the input rows under an output row's window, with the window position of their
/// first column.
template <class Visit>
void for_each_input_row(const Windows& w, const Row& row, const Visit& visit) {
  const Range channels = w.inside(0, row.c), depths = w.inside(1, row.d), heights = w.inside(2, row.h);
  for (std::int64_t c = channels.low; c < channels.high; ++c)
    for (std::int64_t d = depths.low; d < depths.high; ++d)
      for (std::int64_t h = heights.low; h < heights.high; ++h)
        visit(w.place(0, row.c, c), w.place(1, row.d, d), w.place(2, row.h, h),
              ((c * w.window[1] + d) * w.window[2] + h) * w.window[3]);
}

/// Runs `function(std::integral_constant or std::int64_t step)`: steps of 1 and 2 are worth their own loops.
template <class Function>
void with_step(std::int64_t step, const Function& function) {
  if (step == 1) return function(std::integral_constant<std::int64_t, 1>{});
  if (step == 2) return function(std::integral_constant<std::int64_t, 2>{});
  function(step);
}

}  // namespace nixie::cpu
