// Hopper's own kernels: over a table of layers they compile without spills and with the tensor cores' instructions as
// written; with a device, their results are held against the same plan in doubles on the CPU, outputs poisoned before.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/hopper_conv.h"
#include "backends/cuda/jit.h"
#include "backends/cuda/lowering.h"
#include "core/array.h"
#include "core/memory.h"
#include "tests/backends/hopper_plans.h"

namespace nixie {
namespace {

using cuda_plans::Draft;

// The same plan over the same values with every number a double.
Draft in_doubles(Draft draft) {
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

// What a slot holds before the run. Values are multiples of a quarter, so that halves hold them, small sums of products
// of them too, and equal maxima are equal in every precision.
Array initial(const Slot& slot, bool poisoned, unsigned seed) {
  Array array(slot.dtype, slot.shape);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> quarters(-4, 4), small(0, 3);
  visit_dtype(slot.dtype, [&](auto type) {
    using T = decltype(type);
    for (T& x : array.data<T>())
      x = convert<T>(is_floating(slot.dtype) ? quarters(random) * 0.25 : static_cast<double>(small(random)));
  });
  if (poisoned) std::memset(array.bytes(), 0xff, static_cast<std::size_t>(array.size_bytes()));
  return array;
}

std::vector<Array> run(Backend& backend, const Draft& draft, int times) {
  Plan plan = draft.plan;
  backend.lower(plan);
  plan_memory(plan);
  const auto executable = backend.compile(plan);
  std::set<int> read;
  for (const Kernel& kernel : draft.plan.kernels)
    for (int slot : slots_read(kernel)) read.insert(slot);
  std::vector<std::shared_ptr<Buffer>> buffers, bound(plan.slots.size());
  for (int slot : plan.externals) {
    const auto s = static_cast<std::size_t>(slot);
    buffers.push_back(bound[s] = backend.allocate(plan.slots[s].size_bytes()));
  }
  std::vector<Array> first;
  for (int time = 0; time < times; ++time) {
    for (int slot : plan.externals) {
      const auto s = static_cast<std::size_t>(slot);
      const Array array = initial(plan.slots[s], !read.count(slot), 17u + static_cast<unsigned>(slot));
      backend.upload(array.bytes(), *bound[s], array.size_bytes());
    }
    executable->run(buffers, plan.scalars);
    std::vector<Array> results;
    for (int slot : draft.outputs) {
      const auto s = static_cast<std::size_t>(slot);
      results.emplace_back(plan.slots[s].dtype, plan.slots[s].shape);
      backend.download(*bound[s], results.back().bytes(), results.back().size_bytes());
    }
    if (time == 0) first = results;
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(0, std::memcmp(first[i].bytes(), results[i].bytes(), static_cast<std::size_t>(first[i].size_bytes())))
          << draft.name << ": run " << time << " differs from the first in output " << i;
  }
  return first;
}

// Halves are rounded once from sums in f32, whose error is far below half a unit of theirs.
double tolerance(Dtype dtype) { return dtype == Dtype::f16 ? 0x1p-10 : dtype == Dtype::bf16 ? 0x1p-8 : 3e-6; }

void expect_close(const Array& found, const Array& expected, const std::string& what) {
  const std::vector<double> x = found.to_vector<double>(), y = expected.to_vector<double>();
  double scale = 0;
  for (double value : y) scale = std::max(scale, std::abs(value));
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double allowed = is_floating(found.dtype()) ? tolerance(found.dtype()) * std::abs(y[i]) + 3e-6 * scale : 0.0;
    if (std::abs(x[i] - y[i]) <= allowed) continue;
    if (++wrong <= 3) ADD_FAILURE() << what << ": element " << i << " is " << x[i] << ", expected " << y[i];
  }
  EXPECT_EQ(wrong, 0) << what << ": wrong elements of " << x.size();
}

// Kernels that run code written for 16-bit layers, not the portable templates.
int own_kernels(const Plan& plan) {
  const std::set<std::string> portable{"map", "reduce", "gather", "gemm", "gemm_mma"};
  int count = 0;
  for (const Kernel& kernel : plan.kernels) count += !portable.count(cuda::generate(plan, kernel, true).variant);
  return count;
}

class CudaHopper : public testing::TestWithParam<hopper_plans::Case> {};

TEST_P(CudaHopper, CompilesWithoutSpills) {
  const Draft draft = GetParam().draft();
  Plan plan = draft.plan;
  cuda::lower(plan, true);
  plan_memory(plan);
  EXPECT_EQ(own_kernels(plan), GetParam().kernels);
  std::vector<std::string> sources;
  for (const Kernel& kernel : plan.kernels) sources.push_back(cuda::generate(plan, kernel, true).source);
  const std::vector<cuda::Cubin> cubins = cuda::compile_sources(sources, "sm_90a");
  for (std::size_t i = 0; i < cubins.size(); ++i) {
    EXPECT_FALSE(cubins[i].code.empty());
    EXPECT_EQ(cuda::resource_use(cubins[i].log).spilled_bytes, 0) << cubins[i].log << sources[i];
    // C7510, C7512: products made to wait for each other; C7508: setmaxnreg ignored.
    for (const char* message : {"warning", "C7508", "C7510", "C7512"})
      EXPECT_EQ(cubins[i].log.find(message), std::string::npos) << cubins[i].log << sources[i];
  }
}

// What lowering joins must not come apart unseen: how many kernels are left.
TEST_P(CudaHopper, JoinsWhatBelongsTogether) {
  Plan joined = GetParam().draft().plan, apart = joined;
  cuda::lower(joined, true);
  cuda::lower(apart, true, false);
  EXPECT_EQ(apart.kernels.size() - joined.kernels.size(), static_cast<std::size_t>(GetParam().joined))
      << to_string(joined);
}

TEST_P(CudaHopper, AgreesWithDoubles) {
  std::shared_ptr<Backend> cuda;
  try {
    cuda = make_cuda_backend();
  } catch (const Error&) {
    GTEST_SKIP() << "no GPU";
  }
  const Draft draft = GetParam().draft(), reference = in_doubles(draft);
  const std::vector<Array> found = run(*cuda, draft, 3), expected = run(*make_cpu_backend(), reference, 1);
  for (std::size_t i = 0; i < found.size(); ++i)
    expect_close(found[i], expected[i], fmt::format("{} output {}", draft.name, i));
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaHopper, testing::ValuesIn(hopper_plans::cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nixie
#endif
