// Shared by the roles of a convolution: its geometry on three spatial axes, and frames, padded copies of an image.
#pragma once

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "nixie/backends/cpu/contract/operand.h"
#include "nixie/backends/cpu/lanes/vector.h"

namespace nixie::cpu {

/// Depth, height, width; axes a convolution lacks have size, stride and dilation 1 and pad 0.
using Sizes = std::array<std::int64_t, 3>;

/// A cross-correlation of x [batch, groups * channels, in] with w [groups * filters, channels, window].
struct ConvShape {
  ConvShape(const Conv& conv, const Shape& x, const Shape& w, const Shape& y);
  std::int64_t taps() const { return window[0] * window[1] * window[2]; }
  std::int64_t batch, groups, channels, filters;
  Sizes in, out, window, stride, pad, dilation;
};

/// A rank 3 to 5 operand as [outer, inner, depth, height, width].
template <class T>
struct ImageView {
  explicit ImageView(const Strided<T>& operand)
      : data(operand.data()), outer(operand.stride(0)), inner(operand.stride(1)) {
    axis.fill(inner);  // of axes that are not there, as if they had one position
    const int spatial = operand.shape().rank() - 2;
    for (int i = 0; i < spatial; ++i) axis[static_cast<std::size_t>(3 - spatial + i)] = operand.stride(2 + i);
  }
  /// Whether images of `channels` channels of this size are row-major without gaps.
  bool is_dense(std::int64_t channels, const Sizes& size) const {
    return axis[2] == 1 && axis[1] == size[2] && axis[0] == size[1] * size[2] && inner == size[0] * axis[0] &&
           outer == channels * inner;
  }
  const T* data;
  std::int64_t outer, inner;
  Sizes axis;
};

/// The layout of a frame: the part of an image that windows reach, zeros where they reach outside. Columns are
/// dealt out by their remainder modulo the column step, so that neighbouring windows read neighbouring elements.
struct FrameLayout {
  Sizes size{};  ///< before the columns are dealt out
  Sizes pad{};   ///< image position = frame position - pad; may be negative
  std::int64_t column_step = 1;

  std::int64_t dealt_columns() const { return ceil_div(size[2], column_step); }
  std::int64_t row() const { return column_step * dealt_columns(); }
  std::int64_t plane() const { return size[1] * row(); }
  std::int64_t channel() const { return size[0] * plane(); }
  /// Whether a frame of a row-major image of this size is the image itself.
  bool is_image(const Sizes& image) const { return size == image && pad == Sizes{} && column_step == 1; }
  std::int64_t at(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return d * plane() + h * row() + w % column_step * dealt_columns() + w / column_step;
  }
};

/// Frame of the output's windows over x.
FrameLayout frame_of_windows(const ConvShape& shape);

/// Fewer than 2 * kCount elements in two pieces that overlap; library calls would cost more than the copy.
template <std::int64_t kCount, class T>
inline void copy_few(const T* from, std::int64_t count, T* to) {
  if constexpr (kCount > 0) {
    if (count < kCount) return copy_few<kCount / 2>(from, count, to);
    std::array<T, kCount> low, high;
    std::memcpy(&low, from, sizeof low), std::memcpy(&high, from + count - kCount, sizeof high);
    std::memcpy(to, &low, sizeof low), std::memcpy(to + count - kCount, &high, sizeof high);
  }
}

/// Copies a row of an image, and asks for what a later one reads: rows are short, and pages end.
template <class T>
inline void copy_row(const T* from, std::int64_t count, T* to) {
  constexpr std::int64_t kWidth = kLanes<T>, kAhead = 2048 / sizeof(T);
  if (count < kWidth) return copy_few<kWidth / 2>(from, count, to);
  for (std::int64_t i = 0; i < count - kWidth; i += kWidth) {
    __builtin_prefetch(from + i + kAhead);
    store(to + i, load(from + i));
  }
  store(to + count - kWidth, load(from + count - kWidth));
}

/// to[i] = from[2 * i].
template <class T>
inline void copy_every_other(const T* from, std::int64_t count, T* to) {
  constexpr int kWidth = kLanes<T>;
  // The second load ends with the last element that is wanted: its neighbour may be behind the image.
  const auto copy_vector = [&](std::int64_t i) {
    const Vector<T> low = load(from + 2 * i), high = load(from + 2 * i + kWidth - 1);
    store(
        to + i, [&]<int... lane>(std::integer_sequence<int, lane...>) {
          return __builtin_shufflevector(low, high, (2 * lane + (2 * lane >= kWidth ? 1 : 0))...);
        }(std::make_integer_sequence<int, kWidth>{}));
  };
  if (count < kWidth) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[2 * i];
    return;
  }
  for (std::int64_t i = 0; i < count - kWidth; i += kWidth) copy_vector(i);
  copy_vector(count - kWidth);
}

/// Copies `channels` channels of an image of size `in` into a frame whose padding is zero already.
template <class T>
void fill_frame(const FrameLayout& layout, const T* image, std::int64_t channel_stride, const Sizes& strides,
                const Sizes& in, std::int64_t channels, T* frame) {
  const std::int64_t columns = layout.dealt_columns(), step = layout.column_step, stride = strides[2];
  const std::int64_t row = layout.row(), plane = layout.plane(), channel = layout.channel();
  // Rows and planes [low, high) of the frame are inside the image; so are columns, for each remainder.
  const auto low = [&](std::size_t a) { return std::clamp<std::int64_t>(layout.pad[a], 0, layout.size[a]); };
  const auto high = [&](std::size_t a) { return std::clamp(in[a] + layout.pad[a], low(a), layout.size[a]); };
  const std::int64_t low_row = low(1), rows = high(1) - low_row;
  for (std::int64_t phase = 0; phase < step; ++phase) {
    const std::int64_t begin = phase - layout.pad[2];
    const std::int64_t first = std::min(columns, begin >= 0 ? 0 : ceil_div(-begin, step));
    const std::int64_t last = std::clamp(begin >= in[2] ? 0 : ceil_div(in[2] - begin, step), first, columns);
    const std::int64_t count = last - first, source_step = step * stride;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t d = low(0); d < high(0); ++d) {
        const T* from = image + c * channel_stride + (d - layout.pad[0]) * strides[0] +
                        (low_row - layout.pad[1]) * strides[1] + (begin + first * step) * stride;
        T* to = frame + c * channel + d * plane + low_row * row + phase * columns + first;
        for (std::int64_t h = 0; h < rows; ++h, from += strides[1], to += row) {
          if (source_step == 1)
            copy_row(from, count, to);
          else if (source_step == 2)
            copy_every_other(from, count, to);
          else
            for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * source_step];
        }
      }
  }
}

/// The role filter_grad; operands dy, x.
template <class T>
void run_filter_grad(const Conv& conv, std::span<const BoundOperand> operands, const Shape& domain,
                     const HeadSink& sink, ThreadPool& pool);

}  // namespace nixie::cpu
