// The CUDA backend's changes to a plan change no result: lowered plans on the CPU against plans as they were.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/base/array.h"
#include "nixie/core/passes/memory.h"
#include "nixie/tests/backends/cuda/head_plans.h"
#include "nixie/tests/backends/cuda/norm_plans.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

using cuda_plans::Draft;

cuda::Chip ampere() { return cuda::chip_named("sm_80"); }
cuda::Chip hopper() { return cuda::chip_named("sm_90a"); }

// One number of what the plan reads.
using Draw = std::function<float(std::mt19937&)>;
float any_number(std::mt19937& random) { return std::uniform_real_distribution<float>(-1, 1)(random); }

// The bytes of a plan whose memory is laid out.
std::vector<float> run_on_cpu(const Plan& plan, int output, const Draw& draw = any_number) {
  const auto cpu = make_cpu_backend(1);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::mt19937 random(5);
  for (int slot : plan.externals) {
    const Slot& s = plan.slots[at(slot)];
    Array array(s.dtype, s.shape);
    for (float& x : array.data<float>()) x = draw(random);
    buffers.push_back(cpu->allocate(array.size_bytes()));
    cpu->upload(array.bytes(), *buffers.back(), array.size_bytes());
  }
  cpu->compile(plan)->run(buffers, plan.scalars);
  Array result(Dtype::f32, plan.slots[at(output)].shape);
  cpu->download(*buffers[at(output)], result.bytes(), result.size_bytes());
  return result.to_vector<float>();
}

TEST(CudaLowering, ChangesNoResult) {
  std::vector<Draft> drafts = cuda_plans::all_products(Dtype::f32);
  for (Draft& draft : cuda_plans::all_convolutions(Dtype::f32)) drafts.push_back(std::move(draft));
  int changed = 0;
  for (const Draft& draft : drafts) {
    Plan plain = draft.plan, lowered = draft.plan;
    cuda::lower(lowered, ampere());
    for (Plan* plan : {&plain, &lowered}) plan_memory(*plan, {.replays_members = true});
    changed += lowered.kernels.size() > draft.plan.kernels.size();
    const std::vector<float> expected = run_on_cpu(plain, draft.outputs[0]),
                             found = run_on_cpu(lowered, draft.outputs[0]);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << draft.name << " element " << i;
  }
  EXPECT_GT(changed, 5);
}

// A reader of images that a map makes of bytes: all of them, shifted with padding and a fourth channel, every second
// block of pixels, summed; or what goes on from channel to channel, which must leave the map alone.
enum class Reader { whole, padded, blocks, sum, flat };

Draft reads_bytes(Reader what) {
  Draft d("reads bytes");
  const Shape shape{2, 3, 6, 8};
  const int bytes = d.slot(Dtype::u8, shape);
  const int x = hopper_plans::internal(d, Dtype::f32, shape, shape.row_major());
  d.plan.kernels = {hopper_plans::normalised(d, bytes, x)};
  Kernel k{.label = "reader", .domain = shape};
  k.loads = {d.dense(x)};
  if (what == Reader::padded) {
    k.domain = {2, 4, 6, 11};
    k.loads[0].offset = -2;
    k.loads[0].inside = {{0, 2}, {0, 3}, {0, 6}, {2, 10}};
  } else if (what == Reader::blocks) {
    k.domain = {2, 3, 4, 4};
    k.loads[0] = {x, -8 - 1, {144, 48, 16, 2}, {{0, 2}, {0, 3}, {1, 4}, {1, 4}}, 0};
    k.loads.push_back({x, 0, {144, 48, 16, 2}, {{0, 2}, {0, 3}, {0, 3}, {0, 4}}, 0});
  } else if (what == Reader::flat) {
    k.domain = {2, 144};
    k.loads[0].strides = {144, 1};
  }
  Stage stage{.body = {cuda_plans::load(0)}};
  for (std::size_t i = 1; i < k.loads.size(); ++i) {
    stage.body.push_back(cuda_plans::load(static_cast<int>(i)));
    stage.body.push_back(cuda_plans::apply(Primitive::sub, {static_cast<int>(2 * i - 2), static_cast<int>(2 * i - 1)}));
  }
  const int last = static_cast<int>(stage.body.size()) - 1;
  if (what == Reader::sum) {
    k.reduced = {0, 2, 3};
    k.carried = {Dtype::f32};
    stage.reductions = {{ReduceKind::sum, last, 0}};
    k.stages = {stage, {.full = false, .body = {cuda_plans::carried(0)}, .stores = {{0, 0}}}};
    k.stores = {d.dense(d.output(Dtype::f32, kept_shape(k)))};
  } else {
    stage.stores = {{last, 0}};
    k.stages = {stage};
    k.stores = {d.dense(d.output(Dtype::f32, k.domain))};
  }
  d.plan.kernels.push_back(k);
  return d;
}

double eighths(Dtype dtype, std::mt19937& random) {
  return dtype == Dtype::u8 ? std::uniform_int_distribution<int>(0, 255)(random)
                            : std::uniform_int_distribution<int>(1, 16)(random) * 0.125;
}

// Members one by one.
Draft ungrouped(Draft draft) {
  draft.plan.groups.clear();
  return draft;
}

void expect_bytes_read(const Draft& draft, int kernels, double tolerance) {
  Draft lowered = draft;
  cuda::lower(lowered.plan, hopper());
  const auto is_map = [&](const Group& group) {
    return lowered.plan.kernels[at(group.members.back())].label == "cast";
  };
  EXPECT_EQ(std::ranges::count_if(lowered.plan.groups, is_map), kernels) << draft.name << to_string(lowered.plan);
  const auto cpu = make_cpu_backend(2);
  const std::vector<Array> expected = cuda_plans::run(*cpu, draft, 1, eighths),
                           found = cuda_plans::run(*cpu, ungrouped(lowered), 1, eighths);
  cuda_plans::expect_close(found, expected, cuda_plans::Bound{.of_largest = tolerance}, draft.name);
}

TEST(CudaLowering, ComputesImagesOfBytesWhereTheyAreRead) {
  for (const Reader what : {Reader::whole, Reader::padded, Reader::blocks, Reader::sum, Reader::flat})
    expect_bytes_read(reads_bytes(what), what == Reader::flat, 0);
}

// A gradient that does not need its layer's result, as that of a sum, may run before the layer: then it packs its own
// images. It read them before the layer had packed them.
TEST(CudaLowering, AGradientBeforeItsLayerPacksItsOwnImages) {
  for (const bool bytes : {false, true})
    for (const bool first : {false, true}) {
      Draft draft = hopper_plans::first_layer(
          "first", std::string("2x3x47x47 by 64x11x11 stride 4 pad 2") + (bytes ? " bytes" : ""),
          hopper_plans::First::trained);
      std::vector<Kernel>& kernels = draft.plan.kernels;  // images, layer, filter gradient, bias gradient
      if (first) std::rotate(kernels.begin() + 1, kernels.begin() + 2, kernels.end());
      cuda::lower(draft.plan, hopper());
      plan_memory(draft.plan);  // refuses to read what nothing has written
      int packing = 0;
      for (const Group& group : draft.plan.groups)
        for (const cuda::Launch& launch : cuda::generate(draft.plan, group, hopper()).launches)
          packing += launch.entry == "conv_s2d_pack";
      EXPECT_EQ(packing, first ? 2 : 1) << to_string(draft.plan);
    }
}

// Values made of bytes that are used elsewhere too, or made of Variables that change, stay.
TEST(CudaLowering, LeavesMapsThatOthersNeed) {
  Draft kept = reads_bytes(Reader::whole);
  kept.plan.slots[1].external = true;
  kept.plan.externals.push_back(1);
  kept.outputs.push_back(1);
  expect_bytes_read(kept, 1, 0);
  Draft changing = reads_bytes(Reader::whole);
  Kernel update{.label = "update", .domain = {1, 3, 1, 1}};
  update.loads = update.stores = {changing.plan.kernels[0].loads[1]};
  update.stages = {{.body = {cuda_plans::load(0), cuda_plans::number(2), cuda_plans::apply(Primitive::mul, {0, 1})},
                    .stores = {{2, 0}}}};
  changing.plan.kernels.push_back(update);
  expect_bytes_read(changing, 1, 0);
}

TEST(CudaLowering, FirstLayersOfFloatsReadBytes) {
  using hopper_plans::First;
  for (hopper_plans::Layer layer : {"32x3x64x64 by 64x3x3 pad 1", "16x3x95x95 by 64x11x11 stride 4 pad 2",
                                    "32x3x112x108 by 32x7x7 stride 2 pad 3"}) {
    layer.dtype = Dtype::f32, layer.bytes = true;
    const std::string name = fmt::format("{}x{}", layer.r, layer.s);
    expect_bytes_read(hopper_plans::first_layer(name, layer, First::forward), 0, 1e-5);
  }
}

Plan product_with_bias_and_relu() {
  return cuda_plans::headed("product", Matmul{}, Dtype::f32, {{8, 4}, {4, 16}}, {8, 16}).plan;
}

TEST(CudaLowering, LeavesAProductWithItsBiasAndReluToTheLibrary) {
  Plan plan = product_with_bias_and_relu();
  cuda::lower(plan, ampere());
  ASSERT_EQ(plan.groups.size(), 1u);
  const auto* problem = cuda::blas_problem(plan.groups[0]);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->rows, 16);  // column-major: the transpose
  EXPECT_EQ(problem->columns, 8);
  EXPECT_EQ(problem->inner, 4);
  EXPECT_TRUE(problem->bias);
  EXPECT_TRUE(problem->relu);
}

// The call without its ReLU, then the ReLU in place, are the product with it: numbers, zeros and NaN.
TEST(CudaLowering, AReluThatTheLibraryLosesNanInIsAKernelAfterTheCall) {
  for (bool biased : {false, true}) {
    Draft draft = cuda_plans::headed("layer", Matmul{}, Dtype::f32, {{8, 4}, {4, 16}}, {8, 16});
    Kernel& product = draft.plan.kernels[0];
    if (!biased) {
      product.loads.clear();
      product.stages[0].body = {cuda_plans::head(), cuda_plans::number(0), cuda_plans::apply(Primitive::max, {1, 0})};
      product.stages[0].stores = {{2, 0}};
    }
    Plan apart = draft.plan;
    apart.kernels.push_back(cuda::relu_after(product));
    apart.kernels[0].stages[0].stores[0].value = biased ? 2 : 0;  // before the maximum
    const auto one_nan = [] {                                     // in the second row of the first operand
      return [count = 0](std::mt19937& random) mutable {
        return ++count == 6 ? std::numeric_limits<float>::quiet_NaN() : any_number(random);
      };
    };
    for (Plan* plan : {&draft.plan, &apart}) plan_memory(*plan);
    const std::vector<float> expected = run_on_cpu(draft.plan, draft.outputs[0], one_nan()),
                             found = run_on_cpu(apart, draft.outputs[0], one_nan());
    int zeros = 0, lost = 0, numbers = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      zeros += found[i] == 0, lost += std::isnan(found[i]), numbers += found[i] > 0;
      EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) << "element " << i;
    }
    EXPECT_GT(std::min({zeros, lost, numbers}), 0) << zeros << " zeros, " << lost << " NaN, " << numbers << " numbers";
  }
}

TEST(CudaLowering, LeavesProductsToTheLibraryAndOtherStagesToAKernel) {
  Plan plan = product_with_bias_and_relu();
  for (Instruction& in : plan.kernels[0].stages[0].body)
    if (in.primitive == Primitive::constant) in.value = 0.5;  // max(., 1/2) is no ReLU
  cuda::lower(plan, ampere());
  ASSERT_EQ(plan.groups.size(), 2u);
  const auto* problem = cuda::blas_problem(plan.groups[0]);
  ASSERT_TRUE(problem);
  EXPECT_FALSE(problem->bias);
  EXPECT_FALSE(problem->relu);
  EXPECT_FALSE(plan.kernels[1].head);
}

// Each family names the limit for which it refuses.
TEST(CudaLowering, SaysWhyFamiliesRefuseAKernel) {
  Draft draft = cuda_plans::headed("grouped", Conv{.stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}, .groups = 32},
                                   Dtype::f16, {{2, 64, 9, 9}, {64, 2, 3, 3}}, {2, 64, 9, 9}, true);
  cuda::lower(draft.plan, hopper());
  const std::string why = cuda::explain(draft.plan, draft.plan.groups.back());
  EXPECT_NE(why.find("not conv_fprop_sm90: groups of 2 channels or filters;"), std::string::npos) << why;
  EXPECT_TRUE(why.ends_with("taken: gemm")) << why;
  Plan elsewhere = draft.plan;
  elsewhere.groups.clear();
  cuda::lower(elsewhere, ampere());
  EXPECT_NE(cuda::explain(elsewhere, elsewhere.groups.back()).find("not conv_fprop_sm90: needs sm_90a;"),
            std::string::npos);
}

// Reductions of what a convolution stores are accumulated by its program, and the kernel that needs them merges parts.
TEST(CudaLowering, ReductionsMoveToTheProgramThatMakesTheirValues) {
  using hopper_plans::Norm;
  const hopper_plans::Layer layer{"3x64x28x24 by 64x3x3 pad 1"};
  for (const Norm what : {Norm::forward, Norm::two_layers}) {
    Plan plan = hopper_plans::with_norm("norm", layer, what).plan;
    cuda::lower(plan, hopper());
    const std::size_t makers = what == Norm::two_layers ? 2 : 1;
    ASSERT_EQ(plan.groups.size(), makers + 1);
    const cuda::Choice& reader = choice_of(plan.groups.back());
    ASSERT_EQ(reader.merges.size(), makers);
    for (std::size_t i = 0; i < makers; ++i) {
      const cuda::Choice& maker = choice_of(plan.groups[i]);
      ASSERT_TRUE(maker.leaves);
      EXPECT_TRUE(std::ranges::count_if(reader.merges, [&](const cuda::Parts& parts) {
        return parts.slot == maker.leaves->slot && parts.count == maker.leaves->count;
      }));
      EXPECT_NE(cuda::generate(plan, plan.groups[i], hopper()).source.find("#define PARTS_OF_CHANNELS 1"),
                std::string::npos);
    }
    // Parts, then the values once more; with eight numbers for each channel in blocks that merge all parts themselves.
    const cuda::KernelCode code = cuda::generate(plan, plan.groups.back(), hopper());
    EXPECT_EQ(code.launches.size(), makers == 2 ? 1u : 2u);
    EXPECT_EQ(code.source.find("kEndsBack = true") != std::string::npos, makers == 2);
    EXPECT_EQ(code.source.find("kMeets = true"), std::string::npos);
    EXPECT_EQ(code.source.find("kSplits = 1,") == std::string::npos, makers == 2);
    EXPECT_EQ(code.source.find("arrived"), std::string::npos);
  }
}

// Those of a gradient, too, with the images that they need beside it: x, and of two layers both.
TEST(CudaLowering, SumsOfAGradientMoveToTheProgramThatMakesIt) {
  using hopper_plans::Norm;
  const hopper_plans::Layer layer{"128x64x56x56 by 256x1x1"};
  for (const Norm what : {Norm::backward, Norm::backward_and_gate, Norm::backward_of_two}) {
    Plan plan = hopper_plans::with_norm("norm", layer, what).plan;
    const std::size_t loads = plan.kernels[0].loads.size();
    cuda::lower(plan, hopper());
    ASSERT_EQ(plan.groups.size(), 2u);
    const cuda::Choice& maker = choice_of(plan.groups[0]);
    ASSERT_TRUE(maker.leaves);
    EXPECT_EQ(maker.kernel.stages.back().reductions.size(), what == Norm::backward_of_two ? 3u : 2u);
    EXPECT_EQ(maker.kernel.loads.size() - loads, what == Norm::backward ? 2u : 4u);  // x and numbers of its channels
    EXPECT_EQ(choice_of(plan.groups[1]).merges.size(), 1u);
    const std::string text = cuda::generate(plan, plan.groups[0], hopper()).source;
    const std::size_t fixed = text.find("struct Fixed"), end = text.find("};", fixed);
    EXPECT_NE(text.substr(fixed, end - fixed).find("Vector<f32, 8> load"), std::string::npos) << text;
  }
}

// They stay where the values are not read again, where registers do not hold what they need, where products take longer
// in tiles beside them than the pass saves, and where nothing can.
TEST(CudaLowering, OtherReductionsStay) {
  using hopper_plans::Norm;
  const hopper_plans::Layer small{"3x64x28x24 by 64x3x3 pad 1"}, many_pixels{"64x64x56x56 by 64x1x1"},
      patches{"64x64x56x56 by 64x3x3 pad 1"}, products{"128x512x7x7 by 512x3x3 pad 1"};
  const auto merged = [&](const hopper_plans::Layer& layer, Norm what, const cuda::Chip& chip,
                          const std::function<void(Plan&)>& change) {
    Plan plan = hopper_plans::with_norm("norm", layer, what).plan;
    change(plan);
    cuda::lower(plan, chip);
    std::size_t merges = 0;
    for (const Group& group : plan.groups) merges += choice_of(group).merges.size();
    return merges;
  };
  const auto same = [](Plan&) {};
  const auto only_sums = [](Plan& plan) {
    plan.kernels.back().stages.pop_back();
    plan.kernels.back().stores.pop_back();
  };
  EXPECT_EQ(merged(small, Norm::forward, hopper(), same), 1u);
  EXPECT_EQ(merged(small, Norm::forward, ampere(), same), 0u);
  EXPECT_EQ(merged(products, Norm::backward, hopper(), same), 0u);
  EXPECT_EQ(merged(patches, Norm::backward, hopper(), same), 1u);
  EXPECT_EQ(merged(many_pixels, Norm::backward, hopper(), same), 1u);
  EXPECT_EQ(merged(many_pixels, Norm::backward, hopper(), only_sums), 0u);
}

TEST(CudaLowering, AnIntegerProductStaysOneKernel) {
  Plan plan = cuda_plans::headed("product", Matmul{}, Dtype::i32, {{8, 4}, {4, 16}}, {8, 16}).plan;
  cuda::lower(plan, ampere());
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_FALSE(cuda::blas_problem(plan.groups[0]));
  EXPECT_EQ(plan.slots.size(), 4u);  // and no slot is left over
}

}  // namespace
}  // namespace nixie
#endif
