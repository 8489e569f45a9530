// PoolBlocks: windows of whole planes as lanes of vectors, for images whose rows are short.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "nixie/backends/cpu/contract/pool_windows.h"
#include "nixie/backends/cpu/lanes/vector.h"

namespace nixie::cpu {

/// Rows shorter than two vectors leave lanes idle and cost more than what is in them.
template <class T>
bool has_short_rows(const Windows& w) {
  return w.out[3] < 2 * kLanes<T>;
}

/// Neighbouring windows, of several planes if these fill vectors only together, are lanes that read the input through
/// a table of offsets, one for each window and each of its positions. A position outside the input reads the
/// window's first one inside.
template <class T>
class PoolBlocks {
 public:
  /// Rows are short, planes are pooled one by one at equal distances, each window has a position inside the
  /// input, and the table stays in a cache.
  static bool suits(const Windows& w, const PooledView<T>& x) {
    const bool by_planes = w.window[0] == 1 && w.stride[0] == 1 && w.pad[0] == 0;
    const bool evenly = w.batch == 1 || x.batch == w.in[0] * x.axis[0];
    if (!has_short_rows<T>(w) || !by_planes || !evenly || w.out_size() == 0) return false;
    std::int64_t reach = planes_of(w) * std::abs(x.axis[0]);
    for (int a = 1; a < kAxes; ++a) {
      const auto axis = static_cast<std::size_t>(a);
      for (const std::int64_t o : {std::int64_t{0}, w.out[axis] - 1})
        if (w.inside(a, o).low >= w.inside(a, o).high) return false;
      reach += w.in[axis] * std::abs(x.axis[axis]);
    }
    return planes_of(w) * plane(w) * w.window_size() <= kMostEntries && reach <= kMostReach;
  }

  PoolBlocks(const Windows& w, const PooledView<T>& x)
      : planes_(planes_of(w)), plane_(plane(w)), plane_step_(x.axis[0]), count_(w.window_size()) {
    const std::int64_t lanes = planes_ * plane_;
    offsets_.resize(static_cast<std::size_t>(count_ * lanes));
    positions_.resize(offsets_.size());
    inside_.resize(offsets_.size());
    counts_.resize(static_cast<std::size_t>(lanes));
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const std::int64_t at = lane % plane_, row = at / w.out[3];
      const Extents out{0, row / w.out[2], row % w.out[2], at % w.out[3]};
      const Extents first{0, w.inside(1, out[1]).low, w.inside(2, out[2]).low, w.inside(3, out[3]).low};
      for (std::int64_t p = 0; p < count_; ++p) {
        Extents place{0, p / (w.window[2] * w.window[3]), p / w.window[3] % w.window[2], p % w.window[3]};
        const bool is_inside = has(w, out, place);
        if (!is_inside) place = first;
        std::int64_t offset = lane / plane_ * x.axis[0];
        for (int a = 1; a < kAxes; ++a) {
          const auto axis = static_cast<std::size_t>(a);
          offset += w.place(a, out[axis], place[axis]) * x.axis[axis];
        }
        const auto entry = static_cast<std::size_t>(p * lanes + lane);
        offsets_[entry] = static_cast<std::int32_t>(offset);
        positions_[entry] = static_cast<Number>((place[1] * w.window[2] + place[2]) * w.window[3] + place[3]);
        inside_[entry] = is_inside ? -1 : 0;
        counts_[static_cast<std::size_t>(lane)] += static_cast<T>(is_inside);
      }
    }
    is_padded_ = std::find(inside_.begin(), inside_.end(), 0) != inside_.end();
  }
  /// Planes whose windows are consecutive lanes of the table.
  std::int64_t planes() const { return planes_; }

  /// The maxima of `planes` planes from `x` on. NaN wins.
  void max(const T* x, std::int64_t planes, T* to) const {
    for_each_block(x, planes,
                   [&](std::int64_t lane, auto width) { put(best<false>(x, lane, width).value, width, to + lane); });
  }
  /// Their positions in their windows; among equals the first.
  void argmax(const T* x, std::int64_t planes, std::int32_t* to) const {
    for_each_block(x, planes, [&](std::int64_t lane, auto width) {
      const Vector<Number> where = best<true>(x, lane, width).where;
      for (std::int64_t i = 0; i < width; ++i) to[lane + i] = static_cast<std::int32_t>(where[i]);
    });
  }
  /// The means, of positions inside the input unless `count_pad`.
  void mean(const T* x, std::int64_t planes, bool count_pad, T* to) const {
    for_each_block(x, planes, [&](std::int64_t lane, auto width) {
      Vector<T> sum{};
      for (std::int64_t p = 0; p < count_; ++p) {
        const Vector<T> value = read(x, p, lane, width);
        sum += is_padded_ ? (Vector<T>)(load(&inside_[entry(p, lane)]) & (Vector<Number>)value) : value;
      }
      put(sum / (count_pad ? broadcast(static_cast<T>(count_)) : load(&counts_[static_cast<std::size_t>(lane)])), width,
          to + lane);
    });
  }

 private:
  static constexpr std::int64_t kWidth = kLanes<T>, kMostEntries = 1 << 16, kMostReach = 1 << 30;
  using Number = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;  // of a comparison's lanes
  struct Best {
    Vector<T> value;
    Vector<Number> where;
  };

  static std::int64_t plane(const Windows& w) { return w.out[1] * w.out[2] * w.out[3]; }
  /// The fewest that fill vectors.
  static std::int64_t planes_of(const Windows& w) { return kWidth / std::gcd(kWidth, plane(w)); }
  static bool has(const Windows& w, const Extents& out, const Extents& place) {
    bool all = true;
    for (int a = 1; a < kAxes; ++a) {
      const auto axis = static_cast<std::size_t>(a);
      const Range inside = w.inside(a, out[axis]);
      all &= inside.low <= place[axis] && place[axis] < inside.high;
    }
    return all;
  }
  std::size_t entry(std::int64_t p, std::int64_t lane) const {
    return static_cast<std::size_t>(p * planes_ * plane_ + lane);
  }

  /// Asks for the planes behind these, as much for each block of lanes as it reads itself: processors foresee runs, not
  /// a table's offsets.
  void ask(const T* x, std::int64_t lane) const {
    constexpr std::int64_t kLine = 64;
    const auto bytes = planes_ * plane_step_ * std::int64_t{sizeof(T)}, lanes = planes_ * plane_;
    const auto next = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(bytes);
    for (std::int64_t at = bytes * lane / lanes; at < bytes * (lane + kWidth) / lanes; at += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(next + static_cast<std::uintptr_t>(at)));
  }
  /// Calls `block(lane, width)` for whole vectors of lanes, whose width is a constant, and for what is left.
  template <class Block>
  void for_each_block(const T* x, std::int64_t planes, const Block& block) const {
    const std::int64_t lanes = planes * plane_;
    std::int64_t lane = 0;
    for (; lane + kWidth <= lanes; lane += kWidth) {
      ask(x, lane);
      block(lane, std::integral_constant<std::int64_t, kWidth>{});
    }
    if (lane < lanes) block(lane, lanes - lane);
  }
  template <class Width>
  Vector<T> read(const T* x, std::int64_t p, std::int64_t lane, Width width) const {
    const std::int32_t* const offsets = &offsets_[entry(p, lane)];
    Vector<T> value{};
    for (std::int64_t i = 0; i < width; ++i) value[i] = x[offsets[i]];
    return value;
  }
  template <class Width>
  static void put(Vector<T> value, Width width, T* to) {
    if constexpr (std::is_same_v<Width, std::int64_t>)
      for (std::int64_t i = 0; i < width; ++i) to[i] = value[i];
    else
      store(to, value);
  }
  template <bool kWhere, class Width>
  Best best(const T* x, std::int64_t lane, Width width) const {
    Best best{read(x, 0, lane, width), load(&positions_[entry(0, lane)])};
    for (std::int64_t p = 1; p < count_; ++p) {
      const Vector<T> value = read(x, p, lane, width);
      const Vector<Number> wins = ~(value <= best.value) & (best.value == best.value);
      best.value = wins ? value : best.value;
      if constexpr (kWhere) best.where = wins ? load(&positions_[entry(p, lane)]) : best.where;
    }
    return best;
  }

  std::int64_t planes_, plane_, plane_step_, count_;
  bool is_padded_ = false;
  std::vector<std::int32_t> offsets_;       ///< [position][lane], from the first of the planes
  std::vector<Number> positions_, inside_;  ///< the position read, and whether it is the one meant: all bits, or none
  std::vector<T> counts_;                   ///< positions inside the input, for each lane
};

}  // namespace nixie::cpu
