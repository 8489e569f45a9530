// Validation finds a kernel that computes something else, names it, and lets sound ones pass.
#include "nixie/backends/validate.h"

#include <gtest/gtest.h>

#include <functional>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/memory.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

// Another backend that is given a changed plan for the kernels it is asked to run.
class Changed final : public Backend {
 public:
  Changed(std::shared_ptr<Backend> inner, std::function<void(Plan&)> change, std::function<void(Plan&)> lower = {})
      : inner_(std::move(inner)), change_(std::move(change)), lower_(std::move(lower)) {}
  std::string name() const override { return inner_->name(); }
  Target target() const override { return inner_->target(); }
  void lower(Plan& plan) override { lower_ ? lower_(plan) : inner_->lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return inner_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override { inner_->upload(from, to, size_bytes); }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override { inner_->download(from, to, size_bytes); }
  void synchronize() override { inner_->synchronize(); }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    Plan changed = plan;
    change_(changed);
    return inner_->compile(changed);
  }

 private:
  std::shared_ptr<Backend> inner_;
  std::function<void(Plan&)> change_, lower_;
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
  EXPECT_EQ(found.find(GetParam() + std::string(": kernel ")), 0u) << found;
  EXPECT_NE(found.find(" \"mean + add + tanh\": "), std::string::npos) << found;
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
class OtherScalars final : public Backend {
 public:
  explicit OtherScalars(double relative) : relative_(relative) {}
  std::string name() const override { return inner_->name(); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return inner_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override { inner_->upload(from, to, size_bytes); }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override { inner_->download(from, to, size_bytes); }
  void synchronize() override { inner_->synchronize(); }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    return std::make_unique<Runs>(inner_->compile(plan), relative_);
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
  std::shared_ptr<Backend> inner_ = make_cpu_backend(1);
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

// A device that runs the first two kernels as a group and keeps what lies between them to itself.
TEST(ValidationOfGroups, RunsAGroupAsOneAndNamesIt) {
  const auto group = [](Plan& plan) {
    ASSERT_GE(plan.kernels.size(), 2u);
    plan.groups.push_back({.label = "both", .kernels = {0, 1}});
  };
  const auto apart = [](Plan& plan) {
    plan.groups.clear();
    plan_memory(plan);
  };
  const auto cpu = make_cpu_backend(1);
  EXPECT_EQ(last_of_step(std::make_shared<Changed>(cpu, apart, group)), last_of_step(cpu));
  const auto wrong = [&](Plan& plan) {
    apart(plan);
    replace(Primitive::tanh, Primitive::sin)(plan);
  };
  const std::string found = step_error(std::make_shared<Changed>(cpu, wrong, group));
  EXPECT_NE(found.find("cpu: kernel 0 \"both\": element [0, 0] of "), std::string::npos) << found;
}

}  // namespace
}  // namespace nixie
