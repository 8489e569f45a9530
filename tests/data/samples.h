// The samples of a dataset as values.
#pragma once

#include "nixie/data/dataset.h"
#include "nixie/data/loader.h"
#include "nixie/tests/data/support.h"

namespace nixie::test {

inline std::vector<float> sample_values(const Dataset& dataset, std::int64_t index, const AugmentKey& key = {}) {
  std::vector<float> values(static_cast<std::size_t>(dataset.sample_shape().size()), NAN);
  dataset.load(index, key, values);
  return values;
}

/// The bytes of a sample that is stored as such.
inline Bytes sample_bytes(const Dataset& dataset, std::int64_t index, const AugmentKey& key = {}) {
  Bytes bytes(static_cast<std::size_t>(dataset.sample_shape().size()));
  dataset.bytes()->load_bytes(index, key, bytes);
  return bytes;
}

/// A target that is no class, in its own type.
template <class T>
std::vector<T> sample_target(const Dataset& dataset, std::int64_t index, const AugmentKey& key = {}) {
  std::vector<T> values(static_cast<std::size_t>(dataset.target().shape.size()));
  dataset.load_target(index, key, std::as_writable_bytes(std::span(values)));
  return values;
}

inline std::int32_t sample_label(const Dataset& dataset, std::int64_t index) {
  std::vector<float> values(static_cast<std::size_t>(dataset.sample_shape().size()));
  return dataset.load(index, {}, values);
}

/// Where a training sample lies in the stored picture.
struct Move {
  std::int64_t right, down;
  bool mirrored = false;
  auto operator<=>(const Move&) const = default;
};

/// A stored picture [C, H, W] as a sample of another size shows it; black beside the picture.
inline Bytes moved(const Bytes& stored, const Shape& from, const Shape& to, const Move& move) {
  Bytes sample;
  for (std::int64_t c = 0; c < to[0]; ++c)
    for (std::int64_t y = move.down; y < move.down + to[1]; ++y)
      for (std::int64_t i = 0; i < to[2]; ++i) {
        const std::int64_t x = move.right + (move.mirrored ? to[2] - 1 - i : i);
        const bool is_inside = x >= 0 && x < from[2] && y >= 0 && y < from[1];
        sample.push_back(is_inside ? stored[static_cast<std::size_t>((c * from[1] + y) * from[2] + x)] : 0);
      }
  return sample;
}

/// The moves between two that training samples of one stored picture show in so many epochs; it shows no other.
inline std::set<Move> moves_of(const Dataset& dataset, std::int64_t index, const Bytes& stored, const Shape& from,
                               const Move& least, const Move& most, std::int64_t epochs) {
  std::map<Bytes, Move> moves;
  for (Move move = least; move.right <= most.right; ++move.right)
    for (move.down = least.down; move.down <= most.down; ++move.down)
      for (const bool mirrored : {false, true}) {
        move.mirrored = mirrored;
        EXPECT_TRUE(moves.emplace(moved(stored, from, dataset.sample_shape(), move), move).second);
      }
  std::set<Move> seen;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto found = moves.find(sample_bytes(dataset, index, {.seed = 5, .epoch = epoch, .training = true}));
    EXPECT_NE(found, moves.end()) << "epoch " << epoch;
    if (found != moves.end()) seen.insert(found->second);
  }
  return seen;
}

/// Reads a loader's epoch to its end.
inline void read_epoch(Loader& loader) {
  while (loader.next()) continue;
}

}  // namespace nixie::test
