// Distributions draw element by element, from generators of their own.
#include "nixie/apps/benchmark/subjects/distributions.h"

#include <cmath>
#include <random>

#include "nixie/core/base/random.h"

namespace nixie::benchmark {
namespace {

using Random = std::mt19937_64;

double uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }
double normal(Random& random) {  // Box and Muller
  constexpr double kTurn = 6.283185307179586;
  return std::sqrt(-2 * std::log(1 - uniform(random))) * std::cos(kTurn * uniform(random));
}

/// Each element is drawn on its own, from its channel's scale 2^exponent too.
Distribution elements(const std::string& name, double (*draw)(Random&), int largest_exponent = 0) {
  return {
      name, [=](const Shape& shape, std::uint64_t seed) {
        Random random(seed);
        std::vector<int> exponents(static_cast<std::size_t>(shape[1]));
        for (int& exponent : exponents)
          exponent =
              static_cast<int>(random() % static_cast<std::uint64_t>(2 * largest_exponent + 1)) - largest_exponent;
        std::int64_t inner = 1;
        for (int axis = 2; axis < shape.rank(); ++axis) inner *= shape[axis];
        Array array(Dtype::f32, shape);
        std::int64_t i = 0;
        for (float& x : array.data<float>())
          x = static_cast<float>(std::ldexp(draw(random), exponents[static_cast<std::size_t>(i++ / inner % shape[1])]));
        return array;
      }};
}

Distribution one_large() {
  return {"normal, one of 1e6", [](const Shape& shape, std::uint64_t seed) {
            Array array = elements("", normal).draw(shape, seed);
            array.data<float>()[static_cast<std::size_t>(seed % static_cast<std::uint64_t>(shape.size()))] = 1e6F;
            return array;
          }};
}

}  // namespace

std::vector<Distribution> distributions() {
  return {
      elements("uniform", uniform),
      elements("normal", normal),
      elements("normal x exp(2 normal)", [](Random& r) { return normal(r) * std::exp(2 * normal(r)); }),
      elements("normal x exp(4 normal)", [](Random& r) { return normal(r) * std::exp(4 * normal(r)); }),
      elements("normal x exp(6 normal)", [](Random& r) { return normal(r) * std::exp(6 * normal(r)); }),
      elements("2 % normal, else 0", [](Random& r) { return uniform(r) < 0.02 ? normal(r) : 0; }),
      one_large(),
      elements("half 1e-6, half 1e3", [](Random& r) { return uniform(r) < 0.5 ? 1e-6 * normal(r) : 1e3 * normal(r); }),
      elements("channels of 2^-30 to 2^30", normal, 30)};
}

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
