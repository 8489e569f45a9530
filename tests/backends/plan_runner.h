// Hand-made plans for tests of backends: build one, run it on the CPU and by the reference, compare.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <span>

#include "nixie/backends/cpu/backend.h"
#include "nixie/tests/backends/reference.h"

namespace nixie::testing {

using Bytes = std::vector<std::byte>;

/// A plan whose slots are all external, with what they hold.
struct PlanCase {
  Plan plan;
  std::vector<Bytes> memory;

  /// A slot of random values between low and high; returns its number.
  int slot(Dtype dtype, const Shape& shape, std::mt19937& random, double low = -2, double high = 2) {
    const int index = static_cast<int>(plan.slots.size());
    plan.slots.push_back({.name = "s" + std::to_string(index),
                          .dtype = dtype,
                          .shape = shape,
                          .strides = shape.row_major(),
                          .external = true});
    plan.externals.push_back(index);
    memory.emplace_back(static_cast<std::size_t>(shape.size() * size_of(dtype)));
    std::uniform_real_distribution<double> draw(low, high);
    for (std::int64_t i = 0; i < shape.size(); ++i) set_element(memory.back(), dtype, i, draw(random));
    return index;
  }
};

/// The contents of each slot after the plan ran on a CPU backend of so many threads.
inline std::vector<Bytes> run_on_cpu(const PlanCase& c, int threads) {
  static std::map<int, std::shared_ptr<Backend>> backends;
  std::shared_ptr<Backend>& backend = backends[threads];
  if (!backend) backend = make_cpu_backend(threads);
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (const Bytes& bytes : c.memory) {
    buffers.push_back(backend->allocate(static_cast<std::int64_t>(bytes.size())));
    backend->upload(bytes.data(), *buffers.back(), static_cast<std::int64_t>(bytes.size()));
  }
  backend->compile(c.plan)->run(buffers, c.plan.scalars);
  backend->synchronize();
  std::vector<Bytes> result = c.memory;
  for (std::size_t i = 0; i < result.size(); ++i)
    backend->download(*buffers[i], result[i].data(), static_cast<std::int64_t>(result[i].size()));
  return result;
}

/// Rounding unit of a type's values; integers and halves compare within one step.
inline double unit(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return 0x1p-52;
    case Dtype::f32:
      return 0x1p-23;
    case Dtype::f16:
      return 0x1p-10;
    case Dtype::bf16:
      return 0x1p-7;
    case Dtype::f8e4m3:
      return 0x1p-3;
    case Dtype::f8e5m2:
      return 0x1p-2;
    default:
      return 0;
  }
}

/// Compares all slots: |got - expected| <= ulps * unit * max(|expected|, scale).
inline void expect_close(const PlanCase& c, const std::vector<Bytes>& got, const std::vector<Bytes>& expected,
                         double ulps, double scale = 1) {
  for (std::size_t s = 0; s < got.size(); ++s) {
    const Dtype dtype = c.plan.slots[s].dtype;
    const std::int64_t count = static_cast<std::int64_t>(got[s].size()) / size_of(dtype);
    int shown = 0;
    for (std::int64_t i = 0; i < count && shown < 3; ++i) {
      const double g = element(got[s], dtype, i), e = element(expected[s], dtype, i);
      if (g == e || (g != g && e != e)) continue;
      const double bound =
          is_floating(dtype) && std::isfinite(e) ? ulps * unit(dtype) * std::max(std::abs(e), scale) : 0;
      if (!(std::abs(g - e) <= bound)) {
        ADD_FAILURE() << "slot " << s << " element " << i << " is " << g << ", expected " << e << "\n"
                      << to_string(c.plan);
        ++shown;
      }
    }
  }
}

/// Runs the plan by the reference and with 1, 2 and 16 threads; those must give the same bits.
inline void check_plan(const PlanCase& c, double ulps, double scale = 1) {
  std::vector<Bytes> expected = c.memory;
  run_reference(c.plan, expected);
  const std::vector<Bytes> one = run_on_cpu(c, 1);
  expect_close(c, one, expected, ulps, scale);
  for (int threads : {2, 16}) EXPECT_TRUE(run_on_cpu(c, threads) == one) << threads << " threads give other bits";
}

/// An access that walks over a dense slot of the domain's shape.
inline Access dense(int slot, const Shape& domain) { return {.slot = slot, .strides = domain.row_major()}; }

inline Instruction load(int index, Dtype type) { return {.primitive = Primitive::load, .type = type, .index = index}; }
inline Instruction constant(double value, Dtype type) {
  return {.primitive = Primitive::constant, .type = type, .value = value};
}
inline Instruction apply(Primitive primitive, Dtype type, std::array<int, 3> args) {
  return {.primitive = primitive, .type = type, .args = args};
}

}  // namespace nixie::testing
