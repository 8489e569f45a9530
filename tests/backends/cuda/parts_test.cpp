// Reductions of what a program stores, most of them to one value: which move into its epilogue, and that they give what
// a pass over the stored values gives. Programs are compiled without a GPU; with one, results are compared.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

Tensor total(const Tensor& x) { return sum(x, all_axes(x.shape())); }
Tensor largest(const Tensor& x) { return max(x, all_axes(x.shape())); }

// Sums that need no rounding: numbers of whole eighths.
Array eighths(const Shape& shape, int seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.size()));
  std::uint32_t bits = static_cast<std::uint32_t>(seed);
  for (float& each : values) bits = bits * 1664525 + 1013904223, each = static_cast<float>(bits >> 28) / 8 - 1;
  return Array::from(values, shape);
}

struct Case {
  const char* name;
  Shape x, w;
  std::function<Tensor(const Tensor& x, const Tensor& w)> made;
  std::function<std::vector<Tensor>(const Tensor& made)> reduced;
  bool returns = true;  ///< the made array is an output, too
  bool moves = true;    ///< the reductions move into its program
  bool again = false;   ///< what reads them reads the made array, too
};

std::vector<Case> cases() {
  const auto figures = [](const Tensor& y) {
    const Tensor count = where(abs(y) < 4.0, 0, where(abs(y) >= 6.0, 1, 0));
    return std::vector<Tensor>{total(abs(cast(y, Dtype::f32))), largest(y), total(cast(y == 0, Dtype::i32)),
                               total(cast(count, Dtype::i32))};
  };
  const auto conv = [](int pad) {
    return [pad](const Tensor& x, const Tensor& w) {
      return cast(relu(nixie::conv(x, w, {.pad = {pad}}) * 0.125), Dtype::f16);
    };
  };
  const auto update = [](const Tensor& x, const Tensor& dy) {
    return matmul(transpose(x), dy) * 0.5 + eighths({1024, 512}, 9);
  };
  return {
      {"patches of images", {8, 64, 28, 28}, {128, 64, 3, 3}, conv(1), figures},
      {"tiles, of filters that fill none", {8, 64, 14, 14}, {72, 64, 1, 1}, conv(0), figures},
      {"weights by a small product", {64, 1024}, {64, 512}, update, figures},
      {"weights that nothing else reads", {64, 1024}, {64, 512}, update, figures, false},
      {"a mean, which needs counts",
       {8, 64, 28, 28},
       {128, 64, 3, 3},
       conv(1),
       [](const Tensor& y) { return std::vector<Tensor>{mean(y, all_axes(y.shape()))}; }},
      {"a sum that divides what is summed",
       {8, 64, 28, 28},
       {128, 64, 3, 3},
       conv(1),
       [](const Tensor& y) { return std::vector<Tensor>{cast(y, Dtype::f32) / total(cast(y, Dtype::f32))}; },
       false,
       true,
       true},
      {"counts of channels",
       {8, 64, 28, 28},
       {128, 64, 3, 3},
       conv(1),
       [](const Tensor& y) {
         const Tensor count = sum(cast(y == 0, Dtype::i32), {0, 2, 3}, true);
         return std::vector<Tensor>{cast(y, Dtype::f32) * cast(count, Dtype::f32)};
       },
       false,
       true,
       true},
      {"sums of images",
       {8, 64, 28, 28},
       {128, 64, 3, 3},
       conv(1),
       [](const Tensor& y) {
         return std::vector<Tensor>{sum(y, {1, 2, 3})};
       },
       true,
       false},
  };
}

Step step_of(const Case& of, Backend& backend) {
  return Step(
      backend,
      [of](const Inputs& in) {
        const Tensor made = of.made(in["x"], in["w"]);
        Outputs outputs;
        const std::vector<Tensor> reduced = of.reduced(made);
        for (std::size_t i = 0; i < reduced.size(); ++i) outputs[fmt::format("r{}", i)] = reduced[i];
        if (of.returns) outputs["made"] = made;
        return outputs;
      },
      PrecisionPolicy::fp16);
}

Plan plan_of(const Case& of, Backend& backend) {
  const auto given = [](const char* name, const Shape& shape) {
    return Tensor::make(Input{.name = name}, {}, shape, Dtype::f32);
  };
  return make_plan(step_of(of, backend).graph({{"x", given("x", of.x)}, {"w", given("w", of.w)}}), backend);
}

TEST(CudaParts, ReductionsMoveToTheProgramThatStores) {
  CudaPlansBackend backend("sm_90a");
  CudaPrograms programs;
  for (const Case& of : cases()) {
    const Plan plan = plan_of(of, backend);
    std::size_t makers = 0;
    std::int64_t most = 0;  // elements that a program without a head reads
    for (const Group& group : plan.groups) {
      const cuda::Choice& choice = choice_of(group);
      makers += choice.leaves.has_value();
      if (!choice.kernel.reduced.empty())
        for (int slot : group.reads) most = std::max(most, plan.slots[static_cast<std::size_t>(slot)].shape.size());
      if (!choice.leaves) continue;
      // Whichever program is taken, the reader finds as many parts.
      for (const cuda::Choice& each : dynamic_cast<const cuda::Implementers&>(*group.implementation).choices)
        EXPECT_EQ(each.leaves->count, choice.leaves->count) << of.name;
      EXPECT_EQ(choice.kernel.stores.size(), of.returns || of.again ? 1U : 0U) << of.name;
      programs.add(cuda::generate(plan, group, backend.chip()), of.name, of.name);
    }
    EXPECT_EQ(makers, of.moves ? 1U : 0U) << of.name;
    EXPECT_EQ(most < 20000, of.moves && !of.again) << of.name << " " << most;
  }
  programs.one_of_each_form().expect_compile("sm_90a");
}

// One launch merges the parts of several layers.
TEST(CudaParts, ReadersShareALaunch) {
  CudaPlansBackend backend("sm_90a");
  const auto given = [](const char* name, const Shape& shape) {
    return Tensor::make(Input{.name = name}, {}, shape, Dtype::f16);
  };
  const Tensor x = given("x", {8, 64, 28, 28}), w = given("w", {64, 64, 3, 3});
  const Tensor first = relu(nixie::conv(x, w, {.pad = {1}})), second = relu(nixie::conv(first, w, {.pad = {1}}));
  const Plan plan = make_plan({.outputs = {total(abs(first)), total(abs(second)), second}}, backend);
  std::vector<std::size_t> beside;
  for (const Group& group : plan.groups)
    if (const cuda::Choice& choice = choice_of(group); !choice.merges.empty()) beside.push_back(choice.beside.size());
  EXPECT_EQ(beside, std::vector<std::size_t>{1});
}

// The CPU runs the plan's kernels as they were; a GPU its programs. Sums of eighths are exact.
TEST(CudaParts, GiveWhatAPassGives) {
  const auto cpu = make_cpu_backend();
  CudaPlansBackend lowered("sm_90a");
  const auto device = cuda_or_null();
  for (const Case& of : cases()) {
    const std::map<std::string, Tensor> inputs{{"x", eighths(of.x, 1)}, {"w", eighths(of.w, 2)}};
    const auto run = [&](Backend& backend) {
      Step step = step_of(of, backend);
      std::map<std::string, std::vector<double>> values;
      for (const auto& [name, value] : step(inputs)) values[name] = value.to_vector<double>();
      return values;
    };
    const auto expected = run(*cpu);
    EXPECT_EQ(run(lowered), expected) << of.name;
    if (!device) continue;
    for (const auto& [name, values] : run(*device))
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], expected.at(name)[i], 1e-5 * std::abs(expected.at(name)[i])) << of.name << " " << name;
  }
}

}  // namespace
}  // namespace nixie
#endif
