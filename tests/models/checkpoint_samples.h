// Checkpoints to save, and what the tests of checkpoints do with them.
#pragma once

#include <unistd.h>

#include "nixie/models/io/checkpoint.h"
#include "nixie/tests/data/support.h"
#include "nixie/tests/errors.h"

namespace nixie {

/// A folder that lives as long as a test.
class CheckpointTest : public testing::Test {
 protected:
  fs::path file(const std::string& name = "last.h5") const { return folder_ / name; }

  TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};
using CheckpointRefuses = CheckpointTest;

inline Array random_array(Dtype dtype, Shape shape, std::mt19937& random) {
  Array array(dtype, std::move(shape));
  visit_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    for (T& value : array.data<T>()) value = convert<T>(std::normal_distribution<float>(0, 40)(random));
  });
  return array;
}

/// Small, so that thousands of damaged copies are read in seconds.
inline Checkpoint small_sample() {
  std::mt19937 random(2);
  Checkpoint c;
  for (const Shape& shape : {Shape{8, 3, 2}, Shape{5}, Shape{}, Shape{0}})
    c.model[fmt::format("layer{}.weight", c.model.size())] = random_array(Dtype::f32, shape, random);
  c.model["half"] = random_array(Dtype::f16, {33}, random);
  c.optimizer_type = "sgd";
  c.optimizer["layer0.weight"]["momentum_buffer"] = random_array(Dtype::f32, {8, 3, 2}, random);
  c.state = {{"step", std::int64_t{7}}, {"best", 0.5}, {"metric", "loss"}};
  c.rng = {{"seed", std::int64_t{3}}};
  c.config = "a: 1\n";
  c.class_names = {"x", "yz"};
  c.mean = {0.5};
  return c;
}

inline bool equal(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.size() == 0 || std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.size_bytes())) == 0);
}
inline bool equal(const Checkpoint::Arrays& a, const Checkpoint::Arrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && equal(x.second, y.second); });
}
inline bool equal(const Checkpoint& a, const Checkpoint& b) {
  const bool same_optimizer =
      std::equal(a.optimizer.begin(), a.optimizer.end(), b.optimizer.begin(), b.optimizer.end(),
                 [](const auto& x, const auto& y) { return x.first == y.first && equal(x.second, y.second); });
  return equal(a.model, b.model) && equal(a.ema, b.ema) && same_optimizer && a.optimizer_type == b.optimizer_type &&
         a.optimizer_options == b.optimizer_options && a.state == b.state && a.rng == b.rng && a.config == b.config &&
         a.class_names == b.class_names && a.mean == b.mean && a.deviation == b.deviation && a.writer == b.writer;
}

inline void write_bytes(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

inline std::string load_error(const fs::path& file, const LoadOptions& options = {}) {
  return error_of(Fault::checkpoint, [&] { load_checkpoint(file, options); });
}

}  // namespace nixie
