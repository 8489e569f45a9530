// Signals and volumes as images: which kernels for tensor cores take them on Hopper, in every role; with a device,
// results against doubles.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

struct Case {
  std::string name;
  Shape x, w;
  ConvOptions options;
};

// Large enough to leave the portable kernels in every role, and small ones for results.
std::vector<Case> large() {
  return {{"signal", {64, 128, 625}, {128, 128, 15}, {.pad = {7}}},
          {"window", {8, 128, 8, 28, 28}, {128, 128, 3, 3, 3}, {.pad = {1}}},
          {"of_planes", {4, 64, 16, 28, 28}, {128, 64, 1, 3, 3}, {.pad = {0, 1, 1}}},
          {"of_columns", {4, 64, 16, 28, 28}, {128, 64, 3, 1, 1}, {.pad = {1, 0, 0}}},
          {"first_of_three_channels", {4, 3, 16, 56, 56}, {64, 3, 3, 3, 3}, {.pad = {1}}}};
}

// Those, and images whose few filters are sums.
std::vector<Case> with_sums() {
  std::vector<Case> cases = large();
  cases.push_back({"few_filters", {8, 64, 96, 96}, {3, 64, 1, 1}, {}});
  return cases;
}

Array eighths(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> draw(-8, 8);
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (double& value : values) value = draw(random) / 8.0;
  return Array::from(values, shape);
}

// The result of a convolution and its gradients for a random one, in a type.
std::vector<Tensor> roles_of(const Case& c, Dtype dtype) {
  const Tensor x = eighths(c.x, 1).to(dtype), w = eighths(c.w, 2).to(dtype), y = conv(x, w, c.options);
  std::vector<Tensor> roles = gradients(sum(y * Tensor(eighths(y.shape(), 3).to(dtype))), {x, w});
  roles.push_back(y);
  return roles;
}

TEST(CudaConvForms, TensorCoresComputeSignalsAndVolumes) {
  CudaPlansBackend backend;
  const auto families = [&](const Case& c) {
    std::vector<std::string> names;
    for (const Tensor& role : roles_of(c, Dtype::f16)) {
      const Plan plan = make_plan(prepare({.outputs = {role}}, PrecisionPolicy::ieee), backend);
      for (const Group& group : plan.groups)
        for (int member : group.members)
          if (plan.kernels[at(member)].head) names.push_back(group.implementation->name());
    }
    return names;
  };
  for (const Case& c : large())
    for (const std::string& family : families(c)) EXPECT_NE(family, "gemm") << c.name;
  for (const std::string& family : families({"small", {1, 4, 3, 4, 4}, {4, 4, 3, 3, 3}, {.pad = {1}}}))
    EXPECT_EQ(family, "gemm");
}

TEST(CudaConvForms, FewFiltersAreOneReduction) {
  CudaPlansBackend backend;
  const Tensor y = roles_of(with_sums().back(), Dtype::f16).back();
  const Plan plan = make_plan(prepare({.outputs = {y}}, PrecisionPolicy::ieee), backend);
  EXPECT_EQ(plan.groups[0].implementation->name(), "reduce");
  for (const Kernel& kernel : plan.kernels) EXPECT_FALSE(kernel.head) << to_string(plan);
}

TEST(CudaConvForms, Compile) {
  CudaPlansBackend backend;
  CudaPrograms programs;
  for (const Case& c : with_sums())
    programs.add(make_plan(prepare({.outputs = roles_of(c, Dtype::f16)}, PrecisionPolicy::ieee), backend),
                 backend.chip(), c.name, 64);
  programs.expect_compile("sm_90a");
}

TEST(CudaConvForms, AgreeWithDoubles) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  for (Case c : with_sums()) {
    c.x = c.x.with(0, c.x.rank() == 3 ? 16 : 1);
    const std::vector<Tensor> expected = evaluate(roles_of(c, Dtype::f64), *cpu),
                              found = evaluate(roles_of(c, Dtype::f16), *cuda);
    for (std::size_t i = 0; i < found.size(); ++i)
      cuda_plans::expect_close(found[i].array(), expected[i].array(), {.of_itself = 0x1p-10, .of_largest = 3e-6},
                               fmt::format("{} {}", c.name, i));
  }
}

}  // namespace
}  // namespace nixie
#endif
