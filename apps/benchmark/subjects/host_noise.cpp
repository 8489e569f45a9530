// A hash of the position.
#include "nixie/apps/benchmark/subjects/host_noise.h"

#include "nixie/core/base/random.h"

namespace nixie::benchmark {

Array host_noise(const Shape& shape, Dtype dtype, std::string_view purpose) {
  Array noise(Dtype::f32, shape);
  std::uint64_t position = random_stream(1, purpose);
  for (float& value : noise.data<float>()) {  // splitmix64 (Steele et al. 2014)
    std::uint64_t word = position += 0x9e3779b97f4a7c15;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    value = uniform_from(static_cast<std::uint32_t>(word >> 32)) - 0.5f;
  }
  return noise.to(dtype);
}

}  // namespace nixie::benchmark
