// Draws: the random numbers of one sample, in order, from Philox4x32-10.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "nixie/core/base/random.h"

namespace nixie {

/// A sequence that depends only on the stream, the index and the epoch.
class Draws {
 public:
  Draws(std::uint64_t stream, std::int64_t index, std::int64_t epoch = 0)
      : stream_(stream),
        counter_{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(static_cast<std::uint64_t>(index) >> 32),
                 static_cast<std::uint32_t>(epoch), 0} {}

  std::uint32_t word() {
    if (used_ == 4) {
      block_ = philox(counter_, stream_);
      ++counter_[3];
      used_ = 0;
    }
    return block_[used_++];
  }
  float uniform(float low = 0, float high = 1) { return low + (high - low) * uniform_from(word()); }
  /// An integer in [0, count).
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(word()) * static_cast<std::uint64_t>(count)) >> 32);
  }
  /// Two standard normals.
  std::array<float, 2> normals() {
    const std::uint32_t first = word();
    return normals_from(first, word());
  }

 private:
  std::uint64_t stream_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = 4;
};

/// Shuffles by Fisher and Yates's method.
template <class T>
void shuffle(std::vector<T>& values, Draws draws) {
  for (std::size_t left = values.size(); left > 1; --left)
    std::swap(values[left - 1], values[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(left)))]);
}

}  // namespace nixie
