// Phases: the pixels of a convolution's result that use the same taps, and the offsets of those taps in a frame.
#pragma once

#include <functional>

#include "nixie/backends/cpu/contract/conv/conv.h"
#include "nixie/backends/cpu/contract/pack.h"

namespace nixie::cpu {

struct Tap {
  std::int64_t frame;   ///< offset in a channel of the frame
  std::int64_t weight;  ///< offset in a filter's channel
};

/// Pixels of the result whose windows meet the same taps: all of them for the output, those of equal remainder modulo
/// the stride for the input's gradient.
struct Phase {
  FrameLayout frame;
  std::vector<Tap> taps;
  Sizes count;        ///< pixels
  Sizes pixel_step;   ///< planes and rows of the frame from pixel to pixel
  Sizes first, step;  ///< of the pixels in the result
  /// In a channel of the frame, of the first pixel of a row.
  std::int64_t pixel_offset(std::int64_t d, std::int64_t h) const {
    return d * pixel_step[0] * frame.plane() + h * pixel_step[1] * frame.row();
  }
  std::int64_t pixels() const { return count[0] * count[1] * count[2]; }
  /// Whether the pixels of both are in the same lines of the result.
  bool shares_lines(const Phase& other) const { return first[0] == other.first[0] && first[1] == other.first[1]; }
};

/// Calls `visit(d, h, w)` over a box.
template <class Visit>
void for_each_in(const Sizes& sizes, const Visit& visit) {
  for (std::int64_t d = 0; d < sizes[0]; ++d)
    for (std::int64_t h = 0; h < sizes[1]; ++h)
      for (std::int64_t w = 0; w < sizes[2]; ++w) visit(d, h, w);
}

/// to[2 * i] = even[i], to[2 * i + 1] = odd[i].
template <class T>
inline void interleave_row(const T* even, const T* odd, std::int64_t count, T* to) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    const Vector<T> a = load(even + i), b = load(odd + i);
    store(to + 2 * i, interleave<T, false>(a, b));
    store(to + 2 * i + kLanes<T>, interleave<T, true>(a, b));
  }
  for (; i < count; ++i) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
}

/// Puts pixels into their places in `rows` planes of a result: `columns` has those of columns 0, step, 2 * step...,
/// then those from column 1 on, and so forth; zeros for null. `phase` is any of these lines.
template <class T>
void deal_lines(const Phase& phase, const std::vector<const T*>& columns, std::int64_t rows, const Sizes& size,
                T* result) {
  const std::int64_t step = phase.step[2], width = size[2];
  std::int64_t line = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t d = 0; d < phase.count[0]; ++d)
      for (std::int64_t h = 0; h < phase.count[1]; ++h, ++line) {
        const std::int64_t depth = r * size[0] + phase.first[0] + d * phase.step[0];
        T* to = result + (depth * size[1] + phase.first[1] + h * phase.step[1]) * width;
        if (step == 2 && columns[0] && columns[1]) {
          const T *even = columns[0] + line * ceil_div(width, 2), *odd = columns[1] + line * (width / 2);
          interleave_row(even, odd, width / 2, to);
          if (width % 2) to[width - 1] = even[width / 2];
          continue;
        }
        for (std::int64_t first = 0; first < step; ++first) {
          const T* column = columns[static_cast<std::size_t>(first)];
          if (column) column += line * ceil_div(width - first, step);
          for (std::int64_t w = first; w < width; w += step) to[w] = column ? *column++ : T{};
        }
      }
}

/// The one phase of the output: all pixels, all taps.
Phase output_phase(const ConvShape& shape, const Sizes& weight_strides);
/// Calls `take` with each phase of the output (one) or, if not `forward`, of input_grad: its pixels that, padding
/// added, leave the same remainder modulo the stride.
void for_each_phase(bool forward, const ConvShape& shape, const Sizes& weight_strides,
                    const std::function<void(Phase)>& take);

}  // namespace nixie::cpu
