// Runs a Draft on a backend, its outputs poisoned before each run, and compares what two backends made of it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/base/array.h"
#include "nixie/core/graph/backend.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/memory.h"
#include "nixie/tests/backends/cuda/plans.h"

namespace nixie::cuda_plans {

/// One element of a slot that is read.
using Draw = double (*)(Dtype, std::mt19937&);

/// The contents of a slot before a run: drawn values, or bytes that no result leaves: NaN, -1, 255.
inline Array initial(const Slot& slot, bool poisoned, Draw draw, unsigned seed) {
  Array array(slot.dtype, slot.shape);
  if (poisoned) {
    std::memset(array.bytes(), 0xff, static_cast<std::size_t>(array.size_bytes()));
    return array;
  }
  std::mt19937 random(seed);
  visit_dtype(slot.dtype, [&](auto type) {
    using T = decltype(type);
    for (T& x : array.data<T>()) x = convert<T>(draw(slot.dtype, random));
  });
  return array;
}

/// The outputs after the plan ran, lowered for the backend; every run must give the bits of the first.
inline std::vector<Array> run(Backend& backend, const Draft& draft, int times, Draw draw) {
  Plan plan = draft.plan;
  backend.lower(plan);
  plan_memory(plan, backend.target());
  const auto executable = backend.compile(plan);
  std::set<int> read;
  for (const Kernel& kernel : draft.plan.kernels)
    for (int slot : slots_read(kernel)) read.insert(slot);
  std::vector<std::shared_ptr<Buffer>> buffers, buffer_of(plan.slots.size());  // lowering may have added externals
  for (int slot : plan.externals) {
    const auto s = static_cast<std::size_t>(slot);
    buffers.push_back(buffer_of[s] = backend.allocate(plan.slots[s].size_bytes()));
  }
  std::vector<Array> first;
  for (int time = 0; time < times; ++time) {
    for (int slot : plan.externals) {
      const auto s = static_cast<std::size_t>(slot);
      const Array array = initial(plan.slots[s], !read.count(slot), draw, 17u + static_cast<unsigned>(slot));
      backend.upload(array.bytes(), *buffer_of[s], array.size_bytes());
    }
    executable->run(buffers, plan.scalars);
    std::vector<Array> results;
    for (int slot : draft.outputs) {
      const auto s = static_cast<std::size_t>(slot);
      results.emplace_back(plan.slots[s].dtype, plan.slots[s].shape);
      backend.download(*buffer_of[s], results.back().bytes(), results.back().size_bytes());
    }
    if (time == 0) first = results;
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(0, std::memcmp(first[i].bytes(), results[i].bytes(), static_cast<std::size_t>(first[i].size_bytes())))
          << draft.name << ": run " << time << " differs from the first in output " << i;
  }
  return first;
}

/// The same plan over the same values with every number a double.
inline Draft in_doubles(Draft draft) {
  const auto widen = [](Dtype& dtype) { dtype = is_floating(dtype) ? Dtype::f64 : dtype; };
  for (Slot& slot : draft.plan.slots) widen(slot.dtype);
  for (Kernel& kernel : draft.plan.kernels) {
    if (kernel.head) widen(kernel.head->dtype);
    for (Dtype& dtype : kernel.carried) widen(dtype);
    for (Stage& stage : kernel.stages)
      for (Instruction& in : stage.body) widen(in.type);
  }
  return draft;
}

/// How far an element may be off: a part of itself, and a part of the largest, which counts up to `most`.
struct Bound {
  double of_itself = 0, of_largest = 0, most = std::numeric_limits<double>::infinity();
};

inline void expect_close(const Array& found, const Array& expected, const Bound& bound, const std::string& what) {
  const std::vector<double> x = found.to_vector<double>(), y = expected.to_vector<double>();
  double largest = 0;
  for (double value : y)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  const double anywhere = bound.of_largest * std::min(largest, bound.most);
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (std::abs(x[i] - y[i]) <= bound.of_itself * std::abs(y[i]) + anywhere) continue;
    if (++wrong <= 3) ADD_FAILURE() << what << ": element " << i << " is " << x[i] << ", expected " << y[i];
  }
  EXPECT_EQ(wrong, 0) << what << ": wrong elements of " << x.size();
}

/// Compares every output, by the bound for its type.
inline void expect_close(const std::vector<Array>& found, const std::vector<Array>& expected,
                         const std::function<Bound(Dtype)>& bound, const std::string& what) {
  for (std::size_t i = 0; i < found.size(); ++i)
    expect_close(found[i], expected[i], bound(found[i].dtype()), fmt::format("{} output {}", what, i));
}
inline void expect_close(const std::vector<Array>& found, const std::vector<Array>& expected, const Bound& bound,
                         const std::string& what) {
  expect_close(
      found, expected, [&](Dtype) { return bound; }, what);
}

/// One rounding to its type for each result, for sums that are exact in floats; integers are equal.
inline Bound one_rounding(Dtype dtype) {
  if (!is_floating(dtype)) return {};
  return {.of_itself = dtype == Dtype::f16 ? 0x1p-10 : dtype == Dtype::bf16 ? 0x1p-8 : 3e-6, .of_largest = 3e-6};
}

/// Multiples of 1/8 in [-1, 1], whose sums are exact in floats in any order; integers are 0.
inline double eighths(Dtype dtype, std::mt19937& random) {
  return is_floating(dtype) ? std::uniform_int_distribution<int>(-8, 8)(random) * 0.125 : 0;
}

/// Uniform in [-1, 1).
inline double any_number(Dtype, std::mt19937& random) { return std::uniform_real_distribution<double>(-1, 1)(random); }

/// Runs a draft of doubles and its rewritten form on the CPU, and compares the results to 1e-13 of the largest.
inline void expect_unchanged(const Draft& draft, const Draft& rewritten) {
  const auto cpu = make_cpu_backend(1);
  expect_close(run(*cpu, rewritten, 1, any_number), run(*cpu, draft, 1, any_number), Bound{.of_largest = 1e-13},
               draft.name);
}

/// What the CPU makes of a draft with every number a double.
inline std::vector<Array> run_in_doubles(const Draft& draft, Draw draw) {
  return run(*make_cpu_backend(), in_doubles(draft), 1, draw);
}

}  // namespace nixie::cuda_plans
