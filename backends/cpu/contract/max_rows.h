// MaxRows: the maxima of a row of windows, or their positions.
#pragma once

#include <limits>

#include "nixie/backends/cpu/contract/pool_windows.h"
#include "nixie/backends/cpu/lanes/vector.h"

namespace nixie::cpu {

/// The lowest number of T, which loses against all others.
template <class T>
constexpr T lowest() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

/// NaN wins, and among equals the first. Each row of the input under a row of windows is copied between lowest numbers,
/// its columns dealt out by their remainder modulo the stride: neighbouring windows then read neighbouring elements.
template <class T>
class MaxRows {
 public:
  MaxRows(const Windows& windows, const PooledView<T>& x)
      : w_(windows),
        x_(x),
        padded_(ceil_div(w_.out[3], kWidth) * kWidth),
        columns_(padded_ + ceil_div(w_.extent(3), w_.stride[3])),
        dealt_(w_.stride[3] * columns_),
        best_(padded_),
        where_(padded_) {
    for (std::int64_t i = 0; i < w_.window[3]; ++i) {
      const std::int64_t column = i * w_.dilation[3];
      offsets_.push_back(column % w_.stride[3] * columns_ + column / w_.stride[3]);
    }
    std::fill_n(dealt_.data(), w_.stride[3] * columns_, lowest<T>());
  }

  /// The maxima of a row of the output.
  void take(const Row& row, T* best) {
    run<false>(row);
    std::copy_n(best_.data(), w_.out[3], best);
  }
  /// Their positions in their windows.
  void find(const Row& row, std::int32_t* index) {
    run<true>(row);
    for (std::int64_t q = 0; q < w_.out[3]; ++q) index[q] = static_cast<std::int32_t>(where_.data()[q]);
  }

 private:
  static constexpr std::int64_t kWidth = kLanes<T>;
  using Number = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;  // of a comparison's lanes

  template <bool kIndex>
  void run(const Row& row) {
    std::fill_n(best_.data(), padded_, lowest<T>());
    if constexpr (kIndex) std::fill_n(where_.data(), padded_, Number{0});
    bool first = true;
    for_each_input_row(w_, row, [&](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t position) {
      if (kIndex && first) start(position);
      first = false;
      deal(x_.row(row.n, c, d, h));
      for (std::int64_t q = 0; q < padded_; q += kWidth) meet<kIndex>(q, static_cast<Number>(position));
    });
  }

  /// All of a window may be lowest: its first position inside the input is the maximum's then.
  void start(std::int64_t position) {
    for (std::int64_t q = 0; q < w_.out[3]; ++q) {
      const Range inside = w_.inside(3, q);
      if (inside.low < inside.high) where_.data()[q] = static_cast<Number>(position + inside.low);
    }
  }

  /// Copies the columns inside the input; the rest stays lowest.
  void deal(const T* row) {
    const std::int64_t stride = w_.stride[3], step = stride * x_.axis[3];
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      const std::int64_t begin = phase - w_.pad[3];
      const std::int64_t first = begin >= 0 ? 0 : ceil_div(-begin, stride);
      const std::int64_t last = std::min(columns_, begin >= w_.in[3] ? 0 : ceil_div(w_.in[3] - begin, stride));
      const T* from = row + (begin + first * stride) * x_.axis[3];
      T* to = dealt_.data() + phase * columns_;
      with_step(step, [&](auto known) {
        for (std::int64_t i = first; i < last; ++i) to[i] = from[(i - first) * known];
      });
    }
  }

  /// The windows of outputs [q, q + kWidth) meet a row of the input.
  template <bool kIndex>
  void meet(std::int64_t q, Number position) {
    Vector<T> best = load(best_.data() + q);
    Vector<Number> where{};
    if constexpr (kIndex) where = load(where_.data() + q);
    for (const std::int64_t offset : offsets_) {
      const Vector<T> value = load(dealt_.data() + offset + q);
      const Vector<Number> wins = ~(value <= best) & (best == best);
      best = wins ? value : best;
      if constexpr (kIndex) where = wins ? broadcast(position) : where;
      ++position;
    }
    store(best_.data() + q, best);
    if constexpr (kIndex) store(where_.data() + q, where);
  }

  const Windows& w_;
  const PooledView<T>& x_;
  const std::int64_t padded_, columns_;  ///< of the output up to whole vectors; of a remainder
  std::vector<std::int64_t> offsets_;    ///< of the window's columns in `dealt_`
  Scratch<T> dealt_;                     ///< [remainder][column]
  Scratch<T> best_;
  Scratch<Number> where_;
};

}  // namespace nixie::cpu
