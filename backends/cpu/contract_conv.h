// What the roles of a convolution share: its geometry on three spatial axes, and frames, padded copies of an image.
#pragma once

#include <array>
#include <vector>

#include "backends/cpu/contract_operand.h"

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
      : data(operand.data()), outer(operand.stride(0)), inner(operand.stride(1)), axis{} {
    const int spatial = operand.shape().rank() - 2;
    for (int i = 0; i < spatial; ++i) axis[static_cast<std::size_t>(3 - spatial + i)] = operand.stride(2 + i);
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
  std::int64_t at(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return d * plane() + h * row() + w % column_step * dealt_columns() + w / column_step;
  }
};

/// Frame of the output's windows over x.
FrameLayout frame_of_windows(const ConvShape& shape);

/// Copies `channels` channels of an image of size `in` into a frame.
template <class T>
void fill_frame(const FrameLayout& layout, const T* image, std::int64_t channel_stride, const Sizes& strides,
                const Sizes& in, std::int64_t channels, T* frame) {
  const std::int64_t columns = layout.dealt_columns(), step = layout.column_step;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t d = 0; d < layout.size[0]; ++d) {
      for (std::int64_t h = 0; h < layout.size[1]; ++h, frame += layout.row()) {
        const std::int64_t from_d = d - layout.pad[0], from_h = h - layout.pad[1];
        if (from_d < 0 || from_d >= in[0] || from_h < 0 || from_h >= in[1]) {
          std::fill_n(frame, layout.row(), T{});
          continue;
        }
        const T* from = image + c * channel_stride + from_d * strides[0] + from_h * strides[1];
        for (std::int64_t phase = 0; phase < step; ++phase) {
          // Columns [low, high) of this phase lie inside the image.
          T* to = frame + phase * columns;
          const std::int64_t first = phase - layout.pad[2];
          const std::int64_t low = std::clamp<std::int64_t>(first >= 0 ? 0 : ceil_div(-first, step), 0, columns);
          const std::int64_t high =
              std::clamp<std::int64_t>(first >= in[2] ? 0 : ceil_div(in[2] - first, step), low, columns);
          std::fill(to, to + low, T{});
          const T* source = from + (first + low * step) * strides[2];
          if (strides[2] * step == 1)
            std::copy_n(source, high - low, to + low);
          else
            for (std::int64_t i = 0; i < high - low; ++i) to[low + i] = source[i * step * strides[2]];
          std::fill(to + high, to + columns, T{});
        }
      }
    }
  }
}

/// The role filter_grad; operands dy, x.
template <class T>
void run_filter_grad(const Conv& conv, std::span<const BoundOperand> operands, const Shape& domain,
                     const HeadSink& sink, ThreadPool& pool);

}  // namespace nixie::cpu
