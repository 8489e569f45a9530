// Validation finds a kernel that computes something else, names it, and lets sound ones pass.
#include "nixie/backends/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/registry.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/memory.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

// Another backend that is given a changed plan for the kernels it is asked to run.
class Changed final : public ForwardingBackend {
 public:
  Changed(std::shared_ptr<Backend> inner, std::function<void(Plan&)> change)
      : ForwardingBackend(std::move(inner)), change_(std::move(change)) {}
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    Plan changed = plan;
    change_(changed);
    changed.groups.clear();  // what was chosen for the kernels as they were
    lower(changed);
    plan_memory(changed, target());
    return ForwardingBackend::compile(changed);
  }

 private:
  std::function<void(Plan&)> change_;
};

// In every kernel that has one: the first instruction of this kind becomes the other.
std::function<void(Plan&)> replace(Primitive from, Primitive to) {
  return [=](Plan& plan) {
    for (Kernel& kernel : plan.kernels)
      for (Stage& stage : kernel.stages)
        for (Instruction& in : stage.body)
          if (in.primitive == from) return void(in.primitive = to);
  };
}

// Two kernels: a mean over rows with a tanh, and a product of it with its transpose.
float last_of_step(std::shared_ptr<Backend> device) {
  const std::shared_ptr<Backend> backend = make_validating_backend(std::move(device), make_cpu_backend(1));
  const Variable weight("weight", Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}));
  Step step(*backend, [&](const Inputs& in) {
    const Tensor row = tanh(in["x"] + mean(in["x"], {1}));
    const Tensor y = matmul(row, transpose(weight));
    weight.set(weight - 0.01 * gradients(sum(y), std::vector<Variable>{weight})[0].value);
    return Outputs{{"y", y}};
  });
  const Array x = Array::from(std::vector<float>{0.5, -1, 2, 1.5, 0, -0.5, 1, 0.25, -2, 3, 1, 0}, {4, 3});
  Tensor y;
  for (int i = 0; i < 3; ++i) y = step({{"x", x}}).at("y");
  return y.to_vector<float>().back();
}

std::string step_error(const std::shared_ptr<Backend>& device) {
  return error_of(Fault::device, [&] { last_of_step(device); });
}

class Validation : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Backend> device() {
    try {
      return make_backend(GetParam());
    } catch (const Error& error) {
      return nullptr;
    }
  }
};

TEST_P(Validation, LetsASoundBackendPass) {
  const auto sound = device();
  if (!sound) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend(1);
  EXPECT_NEAR(last_of_step(sound), last_of_step(cpu), 1e-4);
}

TEST_P(Validation, NamesTheKernelThatComputesSomethingElse) {
  const auto sound = device();
  if (!sound) GTEST_SKIP() << "no GPU";
  const std::string found = step_error(std::make_shared<Changed>(sound, replace(Primitive::tanh, Primitive::sin)));
  EXPECT_EQ(found.find(GetParam() + std::string(": group ")), 0u) << found;
  EXPECT_NE(found.find(" \"mean + add + tanh\""), std::string::npos) << found;
  EXPECT_NE(found.find("element [0, 0] of "), std::string::npos) << found;
  EXPECT_NE(found.find(" is 0.8414"), std::string::npos) << found;         // sin(0.5 + 0.5)
  EXPECT_NE(found.find(", expected 0.7615"), std::string::npos) << found;  // tanh of it
  EXPECT_NE(found.find(" of 12 elements differ"), std::string::npos) << found;
}

TEST_P(Validation, SeesAnUpdateOfAVariableInPlace) {
  const auto sound = device();
  if (!sound) GTEST_SKIP() << "no GPU";
  const std::string found = step_error(std::make_shared<Changed>(sound, replace(Primitive::sub, Primitive::add)));
  EXPECT_NE(found.find(" of weight (f32 [2, 3]) is "), std::string::npos) << found;
}

// A backend that takes every scalar of a plan for another, one larger, the next smaller.
class OtherScalars final : public ForwardingBackend {
 public:
  explicit OtherScalars(double relative) : ForwardingBackend(make_cpu_backend(1)), relative_(relative) {}
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    return std::make_unique<Runs>(inner()->compile(plan), relative_);
  }

 private:
  struct Runs final : Executable {
    Runs(std::unique_ptr<Executable> inner, double relative) : inner(std::move(inner)), relative(relative) {}
    void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
      std::vector<double> other(scalars.begin(), scalars.end());
      for (std::size_t i = 0; i < other.size(); ++i) other[i] *= 1 + (i % 2 ? -relative : relative);
      inner->run(externals, other);
    }
    std::unique_ptr<Executable> inner;
    double relative;
  };
  double relative_;
};

// 7.5 and -7.5 add up to nothing, in a sum or side by side: what is left are the roundings of either side.
TEST(ValidationOfSums, MeasuresADifferenceByTheTermsThatCancel) {
  std::vector<float> values(3 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 ? 3 : -5;
  const auto in_a_sum = [](const Tensor& x) { return sum(where(x > 0, x * 2.5, x * 1.5), {1}); };
  const auto side_by_side = [](const Tensor& x) { return (x * 2.5 + x * 0.5) - x * 3; };
  for (const auto& [relative, sound] : {std::pair(0x1p-22, true), std::pair(0x1p-7, false)})
    for (const auto& cancelled : std::vector<std::function<Tensor(const Tensor&)>>{in_a_sum, side_by_side}) {
      const auto backend = make_validating_backend(std::make_shared<OtherScalars>(relative), make_cpu_backend(1));
      std::string found;
      try {
        evaluate(cancelled(Array::from(values, {3, 64})), *backend);
      } catch (const Error& error) {
        found = error.what();
      }
      EXPECT_EQ(found.empty(), sound) << found << " at " << relative;
    }
}

INSTANTIATE_TEST_SUITE_P(On, Validation, testing::Values("cpu", "cuda"), [](const auto& name) { return name.param; });

/// The kernel that a device of ours runs in place of the members; it may read slots that no member does.
struct Fused final : Implementation {
  explicit Fused(Kernel kernel) : kernel(std::move(kernel)) {}
  std::string name() const override { return "fused"; }
  Kernel kernel;
};

/// A device that runs the implementation of each group, where it has one.
class Fusing final : public ForwardingBackend {
 public:
  explicit Fusing(std::function<void(Plan&)> lower)
      : ForwardingBackend(make_cpu_backend(1)), lower_(std::move(lower)) {}
  std::string name() const override { return "fusing"; }
  void lower(Plan& plan) override { lower_(plan); }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    Plan runs = plan;
    runs.kernels.clear(), runs.groups.clear();
    for (const Group& group : plan.groups) {
      const auto* fused = dynamic_cast<const Fused*>(group.implementation.get());
      if (fused) runs.kernels.push_back(fused->kernel);
      if (!fused)
        for (int k : group.members) runs.kernels.push_back(plan.kernels[static_cast<std::size_t>(k)]);
    }
    return inner()->compile(runs);
  }

 private:
  std::function<void(Plan&)> lower_;
};

Instruction load(int index) { return {.primitive = Primitive::load, .index = index}; }

// Three kernels on x: a = tanh(x), then two kernels that read a: y = 2 a and z = a + 1. The first two become a group
// whose kernel does not store a; the third a group whose kernel finds z from y. So `a` lives in members alone.
void fuse_both(Plan& plan, Primitive function) {
  ASSERT_EQ(plan.kernels.size(), 3u);
  Kernel first = plan.kernels[0], last = plan.kernels[2];
  const int x = plan.kernels[0].loads[0].slot, y = plan.kernels[1].stores[0].slot, z = plan.kernels[2].stores[0].slot;
  first.stores = plan.kernels[1].stores;
  first.stages = {{.body = {load(0),
                            {.primitive = function, .args = {0, -1, -1}},
                            {.primitive = Primitive::add, .args = {1, 1, -1}}},
                   .stores = {{2, 0}}}};
  last.loads[0].slot = y;
  last.stages = {{.body = {load(0),
                           {.primitive = Primitive::constant, .value = 0.5},
                           {.primitive = Primitive::mul, .args = {0, 1, -1}},
                           {.primitive = Primitive::constant, .value = 1},
                           {.primitive = Primitive::add, .args = {2, 3, -1}}},
                  .stores = {{4, 0}}}};
  plan.groups = {{.members = {0, 1}, .reads = {x}, .writes = {y}, .implementation = std::make_shared<Fused>(first)},
                 {.members = {2}, .reads = {y}, .writes = {z}, .implementation = std::make_shared<Fused>(last)}};
}

Plan three_kernels() {
  Plan plan;
  const Shape shape{64};
  for (const char* name : {"x", "a", "y", "z"})
    plan.slots.push_back(
        {.name = name, .shape = shape, .strides = shape.row_major(), .external = name != std::string("a")});
  plan.externals = {0, 2, 3};
  const auto add = [&](const char* label, int from, int to, std::vector<Instruction> body) {
    const int last = static_cast<int>(body.size()) - 1;
    plan.kernels.push_back({.label = label,
                            .domain = shape,
                            .loads = {{.slot = from, .strides = {1}}},
                            .stores = {{.slot = to, .strides = {1}}},
                            .stages = {{.body = std::move(body), .stores = {{last, 0}}}}});
  };
  add("tanh", 0, 1, {load(0), {.primitive = Primitive::tanh, .args = {0, -1, -1}}});
  add("twice", 1, 2, {load(0), {.primitive = Primitive::add, .args = {0, 0, -1}}});
  add("plus", 1, 3,
      {load(0), {.primitive = Primitive::constant, .value = 1}, {.primitive = Primitive::add, .args = {0, 1, -1}}});
  return plan;
}

std::vector<float> validated(Primitive function) {
  const auto backend = make_validating_backend(std::make_shared<Fusing>([=](Plan& plan) { fuse_both(plan, function); }),
                                               make_cpu_backend(1));
  Plan plan = three_kernels();
  backend->lower(plan);
  plan_memory(plan, backend->target());
  std::vector<float> x(64), z(64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.05F * static_cast<float>(i) - 1;
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(backend->allocate(256));
  backend->upload(x.data(), *buffers[0], 256);
  backend->compile(plan)->run(buffers, {});
  backend->download(*buffers[2], z.data(), 256);
  return z;
}

TEST(ValidationOfGroups, ReplaysTheMembersOfTheGroupsThatRun) {
  const std::vector<float> z = validated(Primitive::tanh);
  for (std::size_t i = 0; i < z.size(); ++i)
    EXPECT_NEAR(z[i], std::tanh(0.05F * static_cast<float>(i) - 1) + 1, 1e-6) << i;
}

TEST(ValidationOfGroups, NamesAGroupWhoseKernelIsWrong) {
  const std::string found = error_of(Fault::device, [] { validated(Primitive::sin); });
  EXPECT_EQ(found.find("fusing: group 0 \"tanh + twice\" by fused: element [0] of y (f32 [64]) is -1.68"), 0u) << found;
}

// A slot that only members touch takes no bytes unless they are replayed.
TEST(ValidationOfGroups, OnlyReplayedMembersTakeMemory) {
  Plan plan = three_kernels();
  fuse_both(plan, Primitive::tanh);
  Plan replayed = plan;
  plan_memory(plan);
  plan_memory(replayed, {.replays_members = true});
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(replayed.arena_bytes, 256);
  EXPECT_EQ(plan.groups[1].waits_for, std::vector{0});
}

}  // namespace
}  // namespace nixie
