// Statistics on a GPU: the CPU's counts and maxima for the same numbers, of every exponent. Skipped where there is no
// GPU.
#ifdef NIXIE_WITH_CUDA
#include <bit>
#include <cmath>
#include <functional>

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/layers/activation.h"
#include "nixie/layers/conv.h"
#include "nixie/layers/linear.h"
#include "nixie/layers/loss.h"
#include "nixie/layers/norm.h"
#include "nixie/layers/shape_layers.h"
#include "nixie/models/registry.h"
#include "nixie/models/statistics.h"
#include "nixie/optimizers/optimizer.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/cuda_programs.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

// Numbers of every exponent and sign, infinities and NaN among them.
Array numbers(const Shape& shape) {
  std::vector<float> x(static_cast<std::size_t>(shape.size()));
  std::uint32_t bits = 0;
  for (float& each : x) each = std::bit_cast<float>(bits), bits += 0x9e3779b9;
  return Array::from(x, shape);
}

std::vector<TensorStatistics> measured(Backend& backend, PrecisionPolicy precision, const Shape& shape, bool is_made) {
  Statistics statistics({}, precision);
  Step step(
      backend,
      [&](const Inputs& in) {
        const Tensor x = is_made ? in["x"] * 0.5 : in["x"];  // fused with the kernel that makes it, or read
        statistics.observe(x, "x", "activations");
        statistics.record(0);
        return Outputs{{"x", x}};
      },
      precision);
  step({{"x", numbers(shape)}});
  return statistics.results();
}

TEST(CudaStatistics, CountsAndMaximaAreThoseOfTheCpu) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  for (const PrecisionPolicy precision : {PrecisionPolicy::fp32, PrecisionPolicy::fp16, PrecisionPolicy::bf16})
    for (const Shape& shape : {Shape{65536}, Shape{64, 33, 5, 7}, Shape{3, 1001}, Shape{1, 8, 1, 16}})
      for (const bool is_made : {false, true}) {
        const TensorStatistics a = measured(*cpu, precision, shape, is_made)[0],
                               b = measured(*cuda, precision, shape, is_made)[0];
        const std::string name = fmt::format("{} {} {}", to_string(precision), shape, is_made);
        EXPECT_EQ(a.zeros, b.zeros) << name;
        EXPECT_EQ(a.saturated, b.saturated) << name;
        EXPECT_EQ(a.infinite, b.infinite) << name;
        EXPECT_EQ(a.nan, b.nan) << name;
        EXPECT_EQ(a.largest, b.largest) << name;
        EXPECT_EQ(a.exponents, b.exponents) << name;
        EXPECT_TRUE(a.nan > 0 || shape.size() < 1000) << name;
      }
}

// Products of each kind, what is normalised, an update: the figures of the numbers that they store.
struct Maker {
  const char* name;
  Shape x, w;
  std::function<Tensor(const Tensor& x, const Tensor& w)> made;
};

TEST(CudaStatistics, FiguresAreThoseOfWhatKernelsStore) {
  const auto conv = [](int pad) {
    return [pad](const Tensor& x, const Tensor& w) { return relu(nixie::conv(x, w, {.pad = {pad}})); };
  };
  const Maker makers[] = {
      {"patches", {8, 64, 28, 28}, {128, 64, 3, 3}, conv(1)},
      {"tiles", {8, 128, 14, 14}, {256, 128, 1, 1}, conv(0)},
      {"weights",
       {64, 1024},
       {64, 512},
       [](const Tensor& x, const Tensor& w) { return matmul(transpose(x), w) * 0.5; }},
      {"normalised",
       {16, 64, 28, 28},
       {1, 64, 1, 1},
       [](const Tensor& x, const Tensor& w) {
         return (x - mean(x, {0, 2, 3}, true)) * w * 30000.0 + 0.5;
       }},
      {"pooled gradient",
       {4, 64, 28, 28},
       {4, 64, 14, 14},
       [](const Tensor& x, const Tensor& w) { return gradients(sum(max_pool(x, {.window = {2}}) * w), {x})[0]; }},
  };
  std::vector<std::shared_ptr<Backend>> backends{make_cpu_backend()};
  if (const auto cuda = cuda_or_null()) backends.push_back(cuda);
  for (const auto& backend : backends)
    for (const Maker& of : makers) {
      Statistics statistics({}, PrecisionPolicy::fp16);
      Step step(
          *backend,
          [&](const Inputs& in) {
            const Tensor x = of.made(in["x"], in["w"]);
            statistics.observe(x, "x", "activations");
            statistics.record(0);
            return Outputs{{"x", cast(x, Dtype::f16)}};
          },
          PrecisionPolicy::fp16);
      std::vector<float> values = evaluate(normal(of.x, 3) * 40, *backend).to_vector<float>();
      values[5] = std::numeric_limits<float>::quiet_NaN();
      const Tensor x = Array::from(values, of.x), w = evaluate(normal(of.w, 4) * 40, *backend);
      std::int64_t zeros = 0, infinite = 0, nan = 0, saturated = 0;
      double largest = 0, total = 0;
      const std::vector<float> stored = step({{"x", x}, {"w", w}})["x"].to_vector<float>();
      for (const float each : stored) {
        const double size = std::abs(each);
        zeros += size == 0, infinite += std::isinf(size), nan += std::isnan(size), saturated += size >= 65504;
        if (std::isfinite(size)) largest = std::max(largest, size), total += size;
      }
      const TensorStatistics found = statistics.results()[0];
      const std::string name = backend->name() + " " + of.name;
      EXPECT_EQ(found.elements, std::ssize(stored)) << name;
      EXPECT_EQ(found.zeros, zeros) << name;
      EXPECT_EQ(found.saturated, saturated) << name;
      EXPECT_EQ(found.infinite, infinite) << name;
      EXPECT_EQ(found.nan, nan) << name;
      EXPECT_EQ(found.largest, largest) << name;
      EXPECT_NEAR(found.mean, total / static_cast<double>(stored.size()), 1e-3 * found.mean) << name;
    }
}

// A training step in halves; null measures nothing.
Outputs body_of(const Model& model, const Optimizer& optimizer, const Tensor& images, const Tensor& labels,
                const Tensor& now, Statistics* statistics) {
  const OperandScope scope(statistics ? statistics->operands(Measured::figures) : OperandRule());
  const std::vector<Variable> parameters = model.parameters().trainable();
  const std::vector<Tensor> before(parameters.begin(), parameters.end());
  const Tensor loss = CrossEntropy{}(model(images, Pass{.step = now}), labels);
  optimizer.update(gradients(optimizer.scaled(loss), parameters));
  if (statistics) {
    for (std::size_t i = 0; i < parameters.size(); ++i) statistics->observe_update(parameters[i], before[i]);
    statistics->record(now);
  }
  return {{"loss", loss}};
}

Plan step_of(const AnyModel& net, const Shape& input, Backend& backend, Statistics* statistics) {
  const Model model(net, input, 0);
  const Optimizer optimizer(model.parameters(), {.rule = Sgd{.momentum = 0.9}, .loss_scale = {.scale = 1024}});
  Step step(
      backend,
      [&](const Inputs& in) { return body_of(model, optimizer, in["images"], in["labels"], in["step"], statistics); },
      PrecisionPolicy::fp16);
  const auto given = [](const char* name, const Shape& shape, Dtype dtype) {
    return Tensor::make(Input{.name = name}, {}, shape, dtype);
  };
  return make_plan(step.graph({{"images", given("images", input, Dtype::f32)},
                               {"labels", given("labels", {input[0]}, Dtype::i32)},
                               {"step", given("step", {}, Dtype::i32)}}),
                   backend);
}

// The sums that a convolution leaves for a normalisation.
std::ptrdiff_t parts_of(const Plan& plan) {
  return std::ranges::count_if(plan.slots, [](const Slot& slot) { return slot.name.starts_with("parts of "); });
}

// Measuring what a normalisation makes splits its kernel.
TEST(CudaStatistics, SumsOfNormalisationsStayInConvolutions) {
  CudaPlansBackend backend("sm_90a");
  Statistics statistics({}, PrecisionPolicy::fp16);
  const Shape input{32, 3, 224, 224};
  const std::ptrdiff_t parts = parts_of(step_of(Resnet<18>{}, input, backend, nullptr));
  EXPECT_GT(parts, 20);
  EXPECT_GE(parts_of(step_of(Resnet<18>{}, input, backend, &statistics)), parts);
}

// Beside a step that measures nothing: what a product makes is measured by its program, a pooling's gradient before it
// is spread out, and parameters where they are halves. What is left are poolings' outputs and updates of filters.
TEST(CudaStatistics, FewBytesAreReadAgain) {
  CudaPlansBackend backend("sm_90a");
  const Shape input{64, 3, 64, 64};
  const auto read = [&](Statistics* statistics) {
    const Plan plan = step_of(Vgg<11>{}, input, backend, statistics);
    std::int64_t bytes = 0;
    for (const Group& group : plan.groups)
      for (const auto* slots : {&group.reads, &group.writes})
        for (int slot : *slots) bytes += plan.slots[static_cast<std::size_t>(slot)].size_bytes();
    return bytes;
  };
  Statistics statistics({}, PrecisionPolicy::fp16);
  const auto none = static_cast<double>(read(nullptr)), measured = static_cast<double>(read(&statistics));
  EXPECT_LT(measured, 1.15 * none);
}

TEST(CudaStatistics, TheProgramsOfAStepCompile) {
  CudaPlansBackend backend("sm_90a");
  Statistics statistics({.shadow = {"e4m3"}}, PrecisionPolicy::fp16);
  const Sequential net{Conv2d{.out = 64, .kernel = {3}, .pad = {1}},
                       BatchNorm{},
                       Relu{},
                       Conv2d{.out = 64, .kernel = {3}, .pad = {1}},
                       Relu{},
                       Flatten{},
                       Linear{.out = 16}};
  const Plan plan = step_of(net, {32, 64, 28, 28}, backend, &statistics);
  CudaPrograms programs;
  for (const Group& group : plan.groups) {
    const std::string label = label_of(plan, group);
    if (label.find("vanishes") == std::string::npos && label.find("copy") == std::string::npos) continue;
    const cuda::KernelCode code = cuda::generate(plan, group, backend.chip());
    programs.add(code, form_of(code), label);
  }
  EXPECT_GT(programs.size(), 10U);
  programs.one_of_each_form().expect_compile("sm_90a");
}

TEST(CudaStatistics, ChangeNoStep) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const Shape input{16, 3, 64, 64};
  std::vector<std::vector<float>> results;
  for (const bool measures : {false, true}) {
    const Model model(Resnet<18>{}, input, 0, Dtype::f32);
    const Optimizer optimizer(model.parameters(), {.rule = Sgd{.momentum = 0.9}, .loss_scale = {.scale = 1024}});
    Statistics statistics({}, PrecisionPolicy::fp16);
    Step step(
        *cuda,
        [&](const Inputs& in) {
          return body_of(model, optimizer, in["images"], in["labels"], 0, measures ? &statistics : nullptr);
        },
        PrecisionPolicy::fp16);
    const Tensor images = evaluate(uniform(input, 3), *cuda);
    const Array labels = Array::from(std::vector<std::int32_t>(16, 7), {16});
    std::vector<float>& losses = results.emplace_back();
    for (int i = 0; i < 4; ++i) losses.push_back(step({{"images", images}, {"labels", labels}})["loss"].item());
  }
  // The last losses are a millionth of the first, a few roundings of a half.
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(results[0][i], results[1][i], 2e-3 * std::abs(results[0][i]) + 1e-5 * std::abs(results[0][0])) << i;
}

}  // namespace
}  // namespace nixie
#endif
