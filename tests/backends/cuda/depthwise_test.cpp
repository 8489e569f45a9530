// Depthwise convolutions: over a table of layers their kernels compile without spills in every role; with a device,
// results are held against the same plan in doubles on the CPU, outputs poisoned before, three runs equal bit for bit.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/cuda/norm_plans.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/backends/forwarding_backend.h"
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

Layer depthwise(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t r, std::int64_t s,
                std::vector<int> stride, std::vector<int> pad, Dtype dtype = Dtype::f16,
                std::vector<int> dilation = {1, 1}) {
  return {.n = n,
          .c = c,
          .h = h,
          .w = w,
          .k = c,
          .r = r,
          .s = s,
          .stride = stride,
          .pad = pad,
          .dilation = dilation,
          .dtype = dtype,
          .groups = static_cast<int>(c)};
}

Layer several(std::int64_t many, Layer layer) {
  layer.k = many * layer.c;
  return layer;
}

// Channels that are pieces of 4, 2 and 1, several filters for a channel; windows whose rows slide and others; strides
// above, equal to and below the window; dilation; images of one pixel.
std::vector<Case> cases() {
  const Dtype bf16 = Dtype::bf16, f32 = Dtype::f32;
  Layer rows = depthwise(2, 16, 9, 10, 3, 3, {1, 1}, {1, 1});
  rows.row_major = true;
  return {
      {"mobilenet_3x3", depthwise(3, 32, 28, 30, 3, 3, {1, 1}, {1, 1})},
      {"mobilenet_3x3_stride_2", depthwise(3, 64, 29, 30, 3, 3, {2, 2}, {1, 1})},
      {"3x3_c264", depthwise(2, 264, 7, 7, 3, 3, {1, 1}, {1, 1}, bf16)},
      {"3x3_c40_f32", depthwise(2, 40, 13, 15, 3, 3, {1, 1}, {1, 1}, f32)},
      {"3x3_c3_f32", depthwise(2, 3, 13, 15, 3, 3, {2, 2}, {0, 1}, f32)},
      {"3x3_c6", depthwise(3, 6, 15, 9, 3, 3, {1, 1}, {0, 1})},
      {"5x5", depthwise(2, 48, 17, 16, 5, 5, {1, 1}, {2, 2})},
      {"5x5_stride_2", depthwise(2, 24, 17, 19, 5, 5, {2, 2}, {2, 1}, bf16)},
      {"7x7", depthwise(2, 96, 14, 17, 7, 7, {1, 1}, {3, 3})},
      {"7x7_of_7x7_c72_bf16", depthwise(33, 72, 7, 7, 7, 7, {1, 1}, {3, 3}, bf16)},
      {"7x7_c20_f32", depthwise(9, 20, 14, 14, 7, 7, {1, 1}, {3, 3}, f32)},
      {"5x5_of_14x14", depthwise(40, 48, 14, 14, 5, 5, {1, 1}, {2, 2})},
      {"9x7_stride_2x1", depthwise(1, 16, 25, 22, 9, 7, {2, 1}, {4, 3})},
      {"1x15", depthwise(1, 32, 6, 33, 1, 15, {1, 1}, {0, 7}, f32)},
      {"15x1", depthwise(1, 32, 33, 6, 15, 1, {1, 1}, {7, 0})},
      {"1x1_stride_2", depthwise(2, 32, 9, 8, 1, 1, {2, 2}, {0, 0})},
      {"2x2_stride_3", depthwise(2, 32, 10, 12, 2, 2, {3, 3}, {0, 1}, bf16)},
      {"dilated", depthwise(2, 32, 19, 23, 3, 3, {1, 1}, {2, 2}, Dtype::f16, {2, 2})},
      {"dilated_by_5_and_3", depthwise(2, 16, 33, 21, 3, 3, {1, 1}, {5, 0}, Dtype::f16, {5, 3})},
      {"dilated_stride_2", depthwise(2, 16, 25, 26, 3, 3, {2, 2}, {2, 1}, Dtype::f16, {3, 2})},
      {"one_pixel", depthwise(5, 64, 1, 1, 3, 3, {1, 1}, {1, 1})},
      {"row_major", rows},
      {"3x3_c3", depthwise(2, 3, 13, 15, 3, 3, {1, 1}, {1, 1})},
      {"8x8_c3_stride_3", depthwise(2, 3, 37, 35, 8, 8, {3, 3}, {10, 10}, Dtype::f16, {3, 3})},
      {"11x3_c7", depthwise(2, 7, 21, 18, 11, 3, {1, 1}, {0, 0}, bf16)},
      {"5x5_c61_stride_2", depthwise(2, 61, 17, 19, 5, 5, {2, 2}, {2, 1}, bf16)},
      {"3x3_c179", depthwise(2, 179, 9, 8, 3, 3, {1, 1}, {1, 1})},
      {"3x3_c289_f32", depthwise(1, 289, 9, 8, 3, 3, {1, 1}, {1, 1}, f32)},
      {"2_filters", several(2, depthwise(2, 8, 15, 14, 3, 3, {1, 1}, {1, 1}))},
      {"2_filters_stride_2", several(2, depthwise(2, 16, 15, 14, 5, 5, {2, 2}, {2, 2}, bf16))},
      {"2_filters_c11_dilated", several(2, depthwise(2, 11, 15, 14, 3, 3, {1, 1}, {2, 2}, f32, {2, 2}))},
      {"3_filters", several(3, depthwise(2, 5, 15, 14, 3, 3, {1, 1}, {1, 1}))},
      {"4_filters", several(4, depthwise(2, 16, 11, 14, 3, 3, {1, 1}, {1, 1}))},
      {"5_filters_stride_2", several(5, depthwise(2, 6, 11, 14, 3, 3, {2, 2}, {1, 1}))},
      {"8_filters", several(8, depthwise(1, 4, 11, 14, 7, 7, {1, 1}, {3, 3}, f32))},
      {"one_channel_9x9", depthwise(3, 1, 17, 19, 9, 9, {1, 1}, {4, 4})},
      {"one_channel_5x3", depthwise(2, 1, 21, 33, 5, 3, {1, 1}, {1, 1}, bf16)},
      {"15x15", depthwise(2, 8, 19, 19, 15, 15, {1, 1}, {7, 7})},
      {"15x15_c3", depthwise(2, 3, 25, 19, 15, 15, {1, 1}, {7, 7})},
      {"15x15_2_filters_f32", several(2, depthwise(1, 8, 19, 19, 15, 15, {2, 2}, {7, 7}, f32))},
      {"15x4_c13_dilated", depthwise(2, 13, 154, 20, 15, 4, {1, 1}, {20, 0}, Dtype::f16, {2, 2})},
      {"12x12_dilated", depthwise(1, 32, 33, 19, 12, 12, {1, 1}, {11, 11}, Dtype::f16, {2, 2})},
      {"14x14_stride_3x2_dilated", depthwise(2, 24, 61, 16, 14, 14, {3, 2}, {19, 19}, Dtype::f16, {3, 3})},
      {"1x75", depthwise(2, 64, 1, 133, 1, 75, {1, 1}, {0, 37}), true},
      {"1x87_bf16", depthwise(2, 32, 1, 100, 1, 87, {1, 1}, {0, 43}, bf16), true},
      {"1x63_f32", depthwise(1, 40, 1, 90, 1, 63, {1, 1}, {0, 31}, f32), true},
      {"1x33_stride_2", depthwise(2, 32, 1, 99, 1, 33, {1, 2}, {0, 16}), true},
      {"1x300_c6", depthwise(1, 6, 2, 310, 1, 300, {1, 1}, {0, 0}), true},
      {"31x31", depthwise(1, 16, 33, 35, 31, 31, {1, 1}, {15, 15}), true},
      {"3x15_dilated_by_5", depthwise(2, 16, 9, 99, 3, 15, {1, 1}, {1, 35}, Dtype::f16, {1, 5}), true},
      {"1x41_2_filters", several(2, depthwise(2, 16, 3, 60, 1, 41, {1, 1}, {0, 20})), true},
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
    const std::vector<Array> expected = cuda_plans::run(*make_cpu_backend(), cuda_plans::in_doubles(draft), 1, eighths),
                             found = cuda_plans::run(*cuda, draft, 3, eighths);
    cuda_plans::expect_rounded(found, expected, draft.name);
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
    Plan plan =
        hopper_plans::filter_grad("7x7", depthwise(32, 384, size, size, 7, 7, {1, 1}, {3, 3}), Gradient::stored).plan;
    cuda::lower(plan, chip);
    const cuda::KernelCode code = cuda::generate(plan, plan.groups[0], chip);
    EXPECT_EQ(code.variant, "depthwise 2x2");
    EXPECT_LE(code.launches[0].blocks, 2 * chip.sms);
  }
}

// Wide groups and doubles stay with the portable kernels.
TEST(CudaDepthwise, LeavesOtherGroups) {
  const Layer plain = depthwise(2, 16, 9, 9, 3, 3, {1, 1}, {1, 1});
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
class WithoutCache final : public Forwarding {
 public:
  using Forwarding::Forwarding;
  void lower(Plan& plan) override { cuda::lower(plan, without_cache()); }
};

std::vector<Layer> normalised_layers() {
  return {depthwise(3, 32, 28, 30, 3, 3, {1, 1}, {1, 1}),
          depthwise(3, 96, 29, 30, 3, 3, {2, 2}, {1, 1}),
          depthwise(8, 24, 19, 17, 7, 7, {2, 2}, {3, 3}, Dtype::bf16),
          depthwise(1, 61, 5, 5, 3, 3, {1, 1}, {1, 1}, Dtype::f32),
          depthwise(2, 264, 9, 7, 5, 5, {1, 1}, {4, 4}, Dtype::f16, {2, 2}),
          depthwise(2, 16, 37, 22, 15, 15, {1, 1}, {7, 7}),
          several(2, depthwise(40, 8, 15, 14, 3, 3, {1, 1}, {1, 1}))};
}

// Sums of what a layer makes are left by the blocks that make it, if a normalisation would read it from memory again.
TEST(CudaDepthwise, LeavesPartsOfANormalisationsSums) {
  const cuda::Chip chip = without_cache();
  std::vector<std::string> sources;
  for (const Layer& layer : normalised_layers()) {
    const Draft draft = hopper_plans::with_norm("norm", layer, Norm::forward);
    Plan plan = draft.plan, on_chip = draft.plan;
    cuda::lower(plan, chip);
    cuda::lower(on_chip, cuda::chip_named("sm_90a"));
    const auto choice_of = [](const Group& group) {
      return dynamic_cast<const cuda::Implementers&>(*group.implementation).choices.front();
    };
    const cuda::Choice maker = choice_of(plan.groups.front()), reader = choice_of(plan.groups.back());
    EXPECT_FALSE(choice_of(on_chip.groups.front()).leaves);
    ASSERT_TRUE(maker.leaves);
    ASSERT_EQ(reader.merges.size(), 1u);
    EXPECT_EQ(reader.merges[0].count, maker.leaves->count);
    const cuda::KernelCode code = cuda::generate(plan, plan.groups.front(), chip);
    EXPECT_EQ(code.launches.at(0).blocks % maker.leaves->count, 0);
    EXPECT_LE(code.launches.at(0).blocks, 3 * chip.sms);
    sources.push_back(code.source);
  }
  for (const cuda::Cubin& cubin : cuda::compile_sources(sources, "sm_90a")) EXPECT_EQ(cuda::complaints(cubin.log), "");
}

TEST(CudaDepthwise, PartsOfANormalisationAgreeWithDoubles) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  WithoutCache backend(cuda);
  for (const Layer& layer : normalised_layers()) {
    const Draft draft = hopper_plans::with_norm("norm", layer, Norm::forward);
    const std::vector<Array> expected = cuda_plans::run(*make_cpu_backend(), cuda_plans::in_doubles(draft), 1, eighths),
                             found = cuda_plans::run(backend, draft, 3, eighths);
    // The normalised values were stored in the layer's type, of which the doubles know nothing.
    const double unit = layer.dtype == Dtype::f32 ? 1e-5 : layer.dtype == Dtype::f16 ? 0x1p-9 : 0x1p-6;
    for (std::size_t i = 0; i < found.size(); ++i)
      cuda_plans::expect_close(found[i], expected[i], {.of_itself = unit, .of_largest = unit},
                               fmt::format("{} {}x{} output {}", layer.dtype, layer.r, layer.s, i));
  }
}

// The results of many filters for one channel are written once; their gradients would all be read at a time.
TEST(CudaDepthwise, LeavesInputGradientsOfManyFilters) {
  const Layer many = several(9, depthwise(2, 4, 9, 9, 3, 3, {1, 1}, {1, 1}));
  EXPECT_TRUE(is_depthwise(hopper_plans::forward("many", many, Forward::plain)));
  EXPECT_TRUE(is_depthwise(hopper_plans::filter_grad("many", many, Gradient::stored)));
  EXPECT_FALSE(is_depthwise(hopper_plans::input_grad("many", many, false)));
}

}  // namespace
}  // namespace nixie
#endif
