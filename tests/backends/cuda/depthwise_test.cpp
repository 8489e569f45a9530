// Depthwise convolutions: over a table of layers their kernels compile without spills in every role; with a device,
// results are held against the same plan in doubles on the CPU, outputs poisoned before, three runs equal bit for bit.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/cuda/norm_plans.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

using cuda_plans::Draft;
using cuda_plans::eighths;
using hopper_plans::Forward;
using hopper_plans::Gradient;
using hopper_plans::Layer;
using hopper_plans::Norm;

struct Case {
  std::string name;
  Layer layer;
  bool is_wide =
      false;  // a window that is read in pieces, where the stride is 1; its filter gradient has other kernels
};

// Channels that are pieces of 4, 2 and 1, several filters for a channel; windows whose rows slide and others; strides
// above, equal to and below the window; dilation; images of one pixel.
std::vector<Case> cases() {
  return {
      {"mobilenet_3x3", "3x32x28x30 by 32x3x3 pad 1 depthwise"},
      {"mobilenet_3x3_stride_2", "3x64x29x30 by 64x3x3 stride 2 pad 1 depthwise"},
      {"3x3_c264", "2x264x7x7 by 264x3x3 pad 1 bf16 depthwise"},
      {"3x3_c40_f32", "2x40x13x15 by 40x3x3 pad 1 f32 depthwise"},
      {"3x3_c3_f32", "2x3x13x15 by 3x3x3 stride 2 pad 0x1 f32 depthwise"},
      {"3x3_c6", "3x6x15x9 by 6x3x3 pad 0x1 depthwise"},
      {"5x5", "2x48x17x16 by 48x5x5 pad 2 depthwise"},
      {"5x5_stride_2", "2x24x17x19 by 24x5x5 stride 2 pad 2x1 bf16 depthwise"},
      {"7x7", "2x96x14x17 by 96x7x7 pad 3 depthwise"},
      {"7x7_of_7x7_c72_bf16", "33x72x7x7 by 72x7x7 pad 3 bf16 depthwise"},
      {"7x7_c20_f32", "9x20x14x14 by 20x7x7 pad 3 f32 depthwise"},
      {"5x5_of_14x14", "40x48x14x14 by 48x5x5 pad 2 depthwise"},
      {"9x7_stride_2x1", "1x16x25x22 by 16x9x7 stride 2x1 pad 4x3 depthwise"},
      {"1x15", "1x32x6x33 by 32x1x15 pad 0x7 f32 depthwise"},
      {"15x1", "1x32x33x6 by 32x15x1 pad 7x0 depthwise"},
      {"1x1_stride_2", "2x32x9x8 by 32x1x1 stride 2 depthwise"},
      {"2x2_stride_3", "2x32x10x12 by 32x2x2 stride 3 pad 0x1 bf16 depthwise"},
      {"dilated", "2x32x19x23 by 32x3x3 pad 2 dilation 2 depthwise"},
      {"dilated_by_5_and_3", "2x16x33x21 by 16x3x3 pad 5x0 dilation 5x3 depthwise"},
      {"dilated_stride_2", "2x16x25x26 by 16x3x3 stride 2 pad 2x1 dilation 3x2 depthwise"},
      {"one_pixel", "5x64x1x1 by 64x3x3 pad 1 depthwise"},
      {"row_major", "2x16x9x10 by 16x3x3 pad 1 depthwise row_major"},
      {"3x3_c3", "2x3x13x15 by 3x3x3 pad 1 depthwise"},
      {"8x8_c3_stride_3", "2x3x37x35 by 3x8x8 stride 3 pad 10 dilation 3 depthwise"},
      {"11x3_c7", "2x7x21x18 by 7x11x3 bf16 depthwise"},
      {"5x5_c61_stride_2", "2x61x17x19 by 61x5x5 stride 2 pad 2x1 bf16 depthwise"},
      {"3x3_c179", "2x179x9x8 by 179x3x3 pad 1 depthwise"},
      {"3x3_c289_f32", "1x289x9x8 by 289x3x3 pad 1 f32 depthwise"},
      {"2_filters", "2x8x15x14 by 16x3x3 pad 1 depthwise"},
      {"2_filters_stride_2", "2x16x15x14 by 32x5x5 stride 2 pad 2 bf16 depthwise"},
      {"2_filters_c11_dilated", "2x11x15x14 by 22x3x3 pad 2 dilation 2 f32 depthwise"},
      {"3_filters", "2x5x15x14 by 15x3x3 pad 1 depthwise"},
      {"4_filters", "2x16x11x14 by 64x3x3 pad 1 depthwise"},
      {"5_filters_stride_2", "2x6x11x14 by 30x3x3 stride 2 pad 1 depthwise"},
      {"8_filters", "1x4x11x14 by 32x7x7 pad 3 f32 depthwise"},
      {"one_channel_9x9", "3x1x17x19 by 1x9x9 pad 4 depthwise"},
      {"one_channel_5x3", "2x1x21x33 by 1x5x3 pad 1 bf16 depthwise"},
      {"15x15", "2x8x19x19 by 8x15x15 pad 7 depthwise"},
      {"15x15_c3", "2x3x25x19 by 3x15x15 pad 7 depthwise"},
      {"15x15_2_filters_f32", "1x8x19x19 by 16x15x15 stride 2 pad 7 f32 depthwise"},
      {"15x4_c13_dilated", "2x13x154x20 by 13x15x4 pad 20x0 dilation 2 depthwise"},
      {"12x12_dilated", "1x32x33x19 by 32x12x12 pad 11 dilation 2 depthwise"},
      {"14x14_stride_3x2_dilated", "2x24x61x16 by 24x14x14 stride 3x2 pad 19 dilation 3 depthwise"},
      {"1x75", "2x64x1x133 by 64x1x75 pad 0x37 depthwise", true},
      {"1x87_bf16", "2x32x1x100 by 32x1x87 pad 0x43 bf16 depthwise", true},
      {"1x63_f32", "1x40x1x90 by 40x1x63 pad 0x31 f32 depthwise", true},
      {"1x33_stride_2", "2x32x1x99 by 32x1x33 stride 1x2 pad 0x16 depthwise", true},
      {"1x300_c6", "1x6x2x310 by 6x1x300 depthwise", true},
      {"31x31", "1x16x33x35 by 16x31x31 pad 15 depthwise", true},
      {"3x15_dilated_by_5", "2x16x9x99 by 16x3x15 pad 1x35 dilation 1x5 depthwise", true},
      {"1x41_2_filters", "2x16x3x60 by 32x1x41 pad 0x20 depthwise", true},
  };
}

std::vector<Draft> drafts(const Case& of) {
  std::vector<Draft> all{hopper_plans::forward(of.name + "_forward", of.layer, Forward::residual)};
  if (!of.is_wide || of.layer.stride == std::vector<int>{1, 1})
    all.push_back(hopper_plans::input_grad(of.name + "_input_grad", of.layer, true));
  if (!of.is_wide) all.push_back(hopper_plans::filter_grad(of.name + "_filter_grad", of.layer, Gradient::updated));
  return all;
}

class CudaDepthwise : public testing::TestWithParam<Case> {};

void add_programs(CudaPrograms& programs, const Case& of, const std::string& architecture) {
  const cuda::Chip chip = cuda::chip_named(architecture);
  for (const Draft& draft : drafts(of)) {
    Plan plan = draft.plan;
    cuda::lower(plan, chip);
    plan_memory(plan);
    int own = 0;
    for (const Group& group : plan.groups) own += cuda::generate(plan, group, chip).variant.starts_with("depthwise");
    EXPECT_EQ(own, 1) << draft.name;
    programs.add(plan, chip, draft.name);
  }
}

TEST(CudaDepthwise, EachFormCompilesWithoutSpills) {
  CudaPrograms programs;
  for (const Case& of : cases()) add_programs(programs, of, "sm_90a");
  programs.one_of_each_form().expect_compile("sm_90a");
}

TEST_P(CudaDepthwise, LongCompilesWithoutSpills) {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    CudaPrograms programs;
    add_programs(programs, GetParam(), architecture);
    programs.expect_compile(architecture);
  }
}

TEST_P(CudaDepthwise, AgreesWithDoubles) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  for (const Draft& draft : drafts(GetParam())) {
    cuda_plans::expect_close(cuda_plans::run(*cuda, draft, 3, eighths), cuda_plans::run_in_doubles(draft, eighths),
                             cuda_plans::one_rounding, draft.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaDepthwise, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

bool is_depthwise(const Draft& draft) {
  const auto by = cuda::take(draft.plan, draft.plan.kernels[0], cuda::chip_named("sm_90a"));
  return by->choices.front().family->name() == "depthwise";
}

// Filter gradients of up to 7x7 taps keep all sums in registers, so that rows are read once, in blocks that run at
// once.
TEST(CudaDepthwise, FilterGradientsOf7x7ReadRowsOnce) {
  const cuda::Chip chip = cuda::chip_named("H200");
  for (const std::int64_t size : {7, 14, 28, 56}) {
    const std::string layer = fmt::format("32x384x{0}x{0} by 384x7x7 pad 3 depthwise", size);
    Plan plan = hopper_plans::filter_grad("7x7", layer, Gradient::stored).plan;
    cuda::lower(plan, chip);
    const cuda::KernelCode code = cuda::generate(plan, plan.groups[0], chip);
    EXPECT_EQ(code.variant, "depthwise 2x2");
    EXPECT_LE(code.launches[0].blocks, 2 * chip.sms);
  }
}

// Wide groups and doubles stay with the portable kernels.
TEST(CudaDepthwise, LeavesOtherGroups) {
  const Layer plain = "2x16x9x9 by 16x3x3 pad 1 depthwise";
  Layer wide = plain, doubles = plain;
  wide.groups = 4;
  doubles.dtype = Dtype::f64;
  EXPECT_TRUE(is_depthwise(hopper_plans::forward("plain", plain, Forward::plain)));
  for (const Layer& layer : {wide, doubles})
    EXPECT_FALSE(is_depthwise(hopper_plans::forward("other", layer, Forward::plain)));
}

// A chip on which no result stays in L2, so that small layers leave parts, too.
cuda::Chip without_cache() {
  cuda::Chip chip = cuda::chip_named("sm_90a");
  chip.l2_bytes = 0;
  return chip;
}

/// The backend at hand, with programs chosen for that chip.
class WithoutCache final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void lower(Plan& plan) override { cuda::lower(plan, without_cache()); }
};

std::vector<Layer> normalised_layers() {
  return {"3x32x28x30 by 32x3x3 pad 1 depthwise",
          "3x96x29x30 by 96x3x3 stride 2 pad 1 depthwise",
          "8x24x19x17 by 24x7x7 stride 2 pad 3 bf16 depthwise",
          "1x61x5x5 by 61x3x3 pad 1 f32 depthwise",
          "2x264x9x7 by 264x5x5 pad 4 dilation 2 depthwise",
          "2x16x37x22 by 16x15x15 pad 7 depthwise",
          "40x8x15x14 by 16x3x3 pad 1 depthwise"};
}

// Sums of what a layer makes are left by the blocks that make it, if a normalisation would read it from memory again.
TEST(CudaDepthwise, LeavesPartsOfANormalisationsSums) {
  const cuda::Chip chip = without_cache();
  CudaPrograms programs;
  for (const Layer& layer : normalised_layers()) {
    const Draft draft = hopper_plans::with_norm("norm", layer, Norm::forward);
    Plan plan = draft.plan, on_chip = draft.plan;
    cuda::lower(plan, chip);
    cuda::lower(on_chip, cuda::chip_named("sm_90a"));
    const cuda::Choice &maker = choice_of(plan.groups.front()), &reader = choice_of(plan.groups.back());
    EXPECT_FALSE(choice_of(on_chip.groups.front()).leaves);
    ASSERT_TRUE(maker.leaves);
    ASSERT_EQ(reader.merges.size(), 1u);
    EXPECT_EQ(reader.merges[0].count, maker.leaves->count);
    const cuda::KernelCode code = cuda::generate(plan, plan.groups.front(), chip);
    EXPECT_EQ(code.launches.at(0).blocks % maker.leaves->count, 0);
    EXPECT_LE(code.launches.at(0).blocks, 3 * chip.sms);
    programs.add(code, "", draft.name);
  }
  programs.expect_compile("sm_90a");
}

TEST(CudaDepthwise, PartsOfANormalisationAgreeWithDoubles) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  WithoutCache backend(cuda);
  for (const Layer& layer : normalised_layers()) {
    const Draft draft = hopper_plans::with_norm("norm", layer, Norm::forward);
    // The normalised values were stored in the layer's type, of which the doubles know nothing.
    const double unit = layer.dtype == Dtype::f32 ? 1e-5 : layer.dtype == Dtype::f16 ? 0x1p-9 : 0x1p-6;
    cuda_plans::expect_close(cuda_plans::run(backend, draft, 3, eighths), cuda_plans::run_in_doubles(draft, eighths),
                             cuda_plans::Bound{.of_itself = unit, .of_largest = unit},
                             fmt::format("{} {}x{}", layer.dtype, layer.r, layer.s));
  }
}

// The results of many filters for one channel are written once; their gradients would all be read at a time.
TEST(CudaDepthwise, LeavesInputGradientsOfManyFilters) {
  const Layer many = "2x4x9x9 by 36x3x3 pad 1 depthwise";
  EXPECT_TRUE(is_depthwise(hopper_plans::forward("many", many, Forward::plain)));
  EXPECT_TRUE(is_depthwise(hopper_plans::filter_grad("many", many, Gradient::stored)));
  EXPECT_FALSE(is_depthwise(hopper_plans::input_grad("many", many, false)));
}

}  // namespace
}  // namespace nixie
#endif
