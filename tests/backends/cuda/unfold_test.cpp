// Convolutions in the forms that tensor cores take: in every form, plans on the CPU give the bits of the plan as it
// was; programs compile; which layers take a form and which stay as they were; with a device, results against doubles.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/unfold/form.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/cuda/splitting.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

using cuda_plans::Draft;
using cuda_plans::eighths;
using hopper_plans::Forward;
using hopper_plans::Gradient;
using hopper_plans::Layer;

struct Case {
  std::string name;
  Layer layer;
};

// Channels and filters that are no multiple of 8, few of either or both; every kind of window.
std::vector<Case> cases() {
  const Dtype bf16 = Dtype::bf16;
  const auto layer = [](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t k, std::int64_t r,
                        std::int64_t s, std::vector<int> stride = {1, 1}, std::vector<int> pad = {0, 0},
                        std::vector<int> dilation = {1, 1}, Dtype dtype = Dtype::f16, bool row_major = false,
                        Math math = Math::ieee) {
    return Layer{n, c, h, w, k, r, s, stride, pad, dilation, dtype, row_major, math};
  };
  return {
      {"stem", layer(2, 3, 20, 22, 16, 7, 7, {2, 2}, {3, 3})},
      {"stem_of_a_column_stride", layer(2, 5, 12, 31, 24, 3, 5, {1, 3}, {1, 2})},
      {"more_stride_than_taps", layer(2, 6, 13, 18, 16, 2, 3, {3, 4}, {0, 1})},
      {"stem_row_major", layer(2, 3, 21, 19, 16, 7, 7, {2, 2}, {3, 3}, {1, 1}, bf16, true)},
      {"one_channel", layer(3, 1, 11, 9, 19, 3, 3, {1, 1}, {1, 1})},
      {"one_filter", layer(2, 20, 9, 12, 1, 5, 3, {1, 1}, {2, 0})},
      {"one_of_both", layer(2, 1, 13, 12, 1, 4, 4, {2, 1}, {1, 2})},
      {"pointwise", layer(2, 82, 5, 7, 74, 1, 1)},
      {"pointwise_stride_3x2", layer(2, 12, 11, 10, 5, 1, 1, {3, 2}, {0, 1}, {1, 1}, bf16)},
      {"odd_3x3", layer(1, 283, 5, 5, 19, 3, 3, {1, 1}, {1, 1})},
      {"many_filters", layer(1, 5, 6, 7, 761, 3, 2, {1, 1}, {1, 1})},
      {"rows_1x15", layer(2, 2, 6, 31, 5, 1, 15, {1, 2}, {0, 7})},
      {"columns_15x1", layer(2, 7, 31, 6, 2, 15, 1, {3, 1}, {7, 0})},
      {"dilated", layer(2, 3, 17, 19, 5, 3, 4, {1, 1}, {2, 3}, {2, 3})},
      {"dilated_and_strided", layer(1, 7, 23, 21, 2, 3, 3, {2, 3}, {2, 1}, {3, 1})},
      {"padding_beyond_the_window", layer(2, 2, 5, 6, 5, 2, 3, {1, 1}, {4, 3})},
      {"patches_4x4_with_an_edge", layer(2, 7, 15, 18, 12, 4, 4, {4, 4}, {1, 1})},
      {"stride_3_of_7x5", layer(1, 3, 17, 16, 9, 7, 5, {3, 2}, {3, 1})},
      {"strided_and_dilated_2x2", layer(2, 5, 12, 11, 10, 3, 3, {2, 2}, {2, 2}, {2, 2})},
      {"every_second_pixel", layer(2, 12, 27, 22, 8, 6, 6, {4, 4}, {5, 5}, {2, 2})},
      {"every_third_pixel_of_an_axis", layer(2, 5, 19, 24, 10, 3, 4, {3, 2}, {4, 1}, {3, 1})},
      {"unread_edge", layer(2, 12, 10, 11, 20, 3, 3, {4, 4})},
      {"patches_2x2", layer(2, 12, 8, 10, 7, 2, 2, {2, 2})},
      // In groups: whole blocks and a smaller last one, zeros after channels or filters of a block, all in one.
      {"groups_of_4", Layer{.n = 2, .c = 32, .h = 7, .w = 8, .k = 32, .r = 3, .s = 3, .pad = {1, 1}, .groups = 8}},
      {"groups_3_to_5", Layer{.n = 2, .c = 21, .h = 6, .w = 9, .k = 35, .r = 2, .s = 3, .pad = {1, 0}, .groups = 7}},
      {"groups_of_2_the_last_block_smaller",
       Layer{.n = 1, .c = 46, .h = 6, .w = 7, .k = 46, .r = 3, .s = 3, .pad = {1, 1}, .groups = 23}},
      {"groups_of_20_to_9",
       Layer{.n = 2, .c = 60, .h = 8, .w = 7, .k = 27, .r = 3, .s = 3, .pad = {1, 1}, .groups = 3}},
      {"groups_of_18_to_24_strided_bf16", Layer{.n = 2,
                                                .c = 36,
                                                .h = 11,
                                                .w = 9,
                                                .k = 48,
                                                .r = 3,
                                                .s = 3,
                                                .stride = {2, 2},
                                                .pad = {1, 1},
                                                .dilation = {1, 2},
                                                .dtype = bf16,
                                                .groups = 2}},
      {"groups_of_6_row_major",
       Layer{.n = 2, .c = 24, .h = 6, .w = 5, .k = 24, .r = 5, .s = 1, .pad = {2, 0}, .row_major = true, .groups = 4}},
      {"one_pixel", layer(3, 5, 1, 1, 2, 3, 3, {1, 1}, {1, 1})},
      // f32, which lowering splits into planes afterwards.
      {"odd_f32", layer(2, 13, 12, 11, 21, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f32, false, Math::fp32)},
      {"odd_5x7_tf32", layer(2, 9, 12, 14, 20, 5, 7, {1, 1}, {3, 3}, {1, 1}, Dtype::f32, true, Math::tf32)},
      {"phases_f32", layer(2, 3, 21, 18, 17, 5, 4, {3, 2}, {2, 1}, {1, 1}, Dtype::f32, false, Math::fp32)},
      {"phases_dilated_tf32", layer(2, 5, 12, 11, 10, 3, 3, {2, 2}, {2, 2}, {2, 2}, Dtype::f32, true, Math::tf32)},
      // f32 by multiply-adds, in fours.
      {"odd_ieee", layer(2, 13, 12, 11, 21, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f32)},
      {"stem_ieee", layer(2, 3, 20, 22, 18, 7, 5, {2, 3}, {3, 2}, {1, 1}, Dtype::f32)},
      {"one_filter_ieee_row_major", layer(2, 18, 9, 13, 1, 3, 9, {1, 1}, {0, 4}, {1, 1}, Dtype::f32, true)},
      {"phases_dilated_ieee", layer(2, 5, 12, 11, 10, 3, 3, {2, 2}, {2, 2}, {2, 2}, Dtype::f32)},
      {"groups_of_3_to_5_ieee",
       Layer{.n = 2, .c = 9, .h = 7, .w = 6, .k = 15, .r = 3, .s = 2, .pad = {1, 1}, .dtype = Dtype::f32, .groups = 3}},
      {"groups_of_12_f32", Layer{.n = 2,
                                 .c = 96,
                                 .h = 6,
                                 .w = 5,
                                 .k = 96,
                                 .r = 3,
                                 .s = 3,
                                 .pad = {1, 1},
                                 .dtype = Dtype::f32,
                                 .math = Math::fp32,
                                 .groups = 8}},
      {"groups_of_6_f32", Layer{.n = 2,
                                .c = 24,
                                .h = 6,
                                .w = 5,
                                .k = 24,
                                .r = 3,
                                .s = 3,
                                .pad = {1, 1},
                                .dtype = Dtype::f32,
                                .math = Math::fp32,
                                .groups = 4}},
  };
}

std::vector<Draft> drafts(const Case& of) {
  return {hopper_plans::forward(of.name + "_forward", of.layer, Forward::residual),
          hopper_plans::forward(of.name + "_two_stores", of.layer, Forward::two_stores),
          hopper_plans::input_grad(of.name + "_input_grad", of.layer, true),
          hopper_plans::filter_grad(of.name + "_filter_grad", of.layer, Gradient::updated)};
}

cuda::Chip hopper() { return cuda::chip_named("sm_90a"); }
// The cases are small: their f32 operands are split whatever their size.
cuda::Chip for_cases(const Draft& draft) { return splitting(hopper(), draft.plan); }

// How many forms a draft's convolution has, and the draft in each; none where tensor cores take it as it is.
std::vector<Draft> in_all_forms(const Draft& draft) {
  std::vector<Draft> all;
  for (std::size_t rank = 0;; ++rank) {
    Draft form = draft;
    cuda::unfold_convs(form.plan, for_cases(draft), rank);
    if (to_string(form.plan) == to_string(draft.plan)) return all;
    const auto same = [&](const Draft& known) { return to_string(known.plan) == to_string(form.plan); };
    if (std::any_of(all.begin(), all.end(), same)) return all;
    all.push_back(std::move(form));
  }
}

// At most this many of them, the first and the last among them: a device compiles each.
std::vector<Draft> some_of(const std::vector<Draft>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<Draft> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

class CudaUnfold : public testing::TestWithParam<Case> {};

TEST_P(CudaUnfold, ChangesNoResult) {
  const auto cpu = make_cpu_backend(1);
  for (const Draft& draft : drafts(GetParam())) {
    const std::vector<Array> expected = cuda_plans::run(*cpu, draft, 1, eighths);
    const std::vector<Draft> forms = in_all_forms(draft);
    // Unchanged: taps of one phase between those of another; one channel and one filter, a depthwise layer.
    const bool unchanged = draft.name == "dilated_and_strided_input_grad" || draft.name.starts_with("one_of_both");
    EXPECT_GE(forms.size(), unchanged ? 0u : 1u) << draft.name;
    for (const Draft& form : forms) {
      const std::vector<Array> found = cuda_plans::run(*cpu, form, 1, eighths);
      for (std::size_t i = 0; i < found.size(); ++i)
        cuda_plans::expect_close(found[i], expected[i], {}, draft.name + "\n" + to_string(form.plan));
      if (HasFailure()) return;
    }
  }
}

// The programs that run a draft on Hopper: their names, without tiles.
std::vector<std::string> programs(const Draft& draft) {
  Plan plan = draft.plan;
  cuda::lower(plan, hopper());
  plan_memory(plan);
  std::vector<std::string> names;
  for (const Group& group : plan.groups) {
    const std::string variant = cuda::generate(plan, group, hopper()).variant;
    names.push_back(variant.substr(0, variant.find(' ')));
  }
  return names;
}

// In the form that is estimated fastest and in the one that is slowest, whose copies may spill a few words: of many
// taps at once all loads are on their way before the first store.
void add_programs(CudaPrograms& programs, const Case& of) {
  for (const Draft& draft : drafts(of)) {
    const std::vector<Draft> forms = in_all_forms(draft);
    if (forms.empty()) continue;
    for (const Draft& form : {forms.front(), forms.back()}) {
      Plan plan = form.plan;
      const cuda::Chip chip = for_cases(draft);
      cuda::lower(plan, chip);
      plan_memory(plan);
      int own = 0;
      for (const Group& group : plan.groups) {
        const cuda::KernelCode code = cuda::generate(plan, group, chip);
        const bool is_own = code.variant.starts_with("conv_");
        own += is_own;
        programs.add(code, form_of(code), draft.name, is_own ? 0 : 64);
      }
      EXPECT_EQ(own, 1) << draft.name;
    }
  }
}

TEST(CudaUnfold, EachFormCompiles) {
  CudaPrograms programs;
  for (const Case& of : cases()) add_programs(programs, of);
  programs.one_of_each_form().expect_compile("sm_90a");
}

TEST_P(CudaUnfold, LongCompiles) {
  CudaPrograms programs;
  add_programs(programs, GetParam());
  programs.expect_compile("sm_90a");
}

TEST_P(CudaUnfold, AgreesWithDoubles) {
  const auto device = cuda_or_null();
  if (!device) GTEST_SKIP() << "no GPU";
  const auto cuda = std::make_shared<Splitting>(device, hopper());
  for (const Draft& draft : drafts(GetParam())) {
    const std::vector<Array> expected = cuda_plans::run(*make_cpu_backend(), cuda_plans::in_doubles(draft), 1, eighths);
    for (const Draft& form : some_of(in_all_forms(draft), 10)) {
      const std::vector<Array> found = cuda_plans::run(*cuda, form, 2, eighths);
      cuda_plans::expect_rounded(found, expected, draft.name + "\n" + to_string(form.plan));
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaUnfold, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

const std::string kForward = "conv_fprop_sm90", kPatches = "conv_halo_sm90", kGradient = "conv_wgrad_sm90",
                  kGradientPatches = "conv_wgrad_halo_sm90";

// Layers of the size that nets have: who runs them, what copies there are.
TEST(CudaUnfold, GivesLargeLayersToTensorCores) {
  const Layer stem{.n = 128, .c = 3, .h = 224, .w = 224, .k = 64, .r = 7, .s = 7, .stride = {2, 2}, .pad = {3, 3}},
      odd{.n = 32, .c = 82, .h = 40, .w = 40, .k = 74, .r = 3, .s = 3, .pad = {1, 1}},
      one_filter{.n = 16, .c = 256, .h = 64, .w = 64, .k = 1, .r = 5, .s = 5, .pad = {2, 2}};
  const auto forward = [](const Layer& layer) { return programs(hopper_plans::forward("f", layer, Forward::plain)); };
  const auto input = [](const Layer& layer) { return programs(hopper_plans::input_grad("i", layer, false)); };
  const auto filter = [](const Layer& layer) {
    return programs(hopper_plans::filter_grad("g", layer, Gradient::stored));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(forward(stem), (Names{"map", "map", kPatches}));         // blocks of 2x2 pixels, filters
  EXPECT_EQ(filter(stem), (Names{"map", kGradientPatches, "map"}));  // read for each pixel of a block, in one launch
  EXPECT_EQ(forward(odd), (Names{"map", "map", kForward}));
  EXPECT_EQ(input(odd), (Names{"map", "map", kForward}));
  EXPECT_EQ(filter(odd), (Names{"map", "map", kGradientPatches, "map"}));  // without the zeros past 82 channels
  EXPECT_EQ(forward(one_filter), (Names{"map", kPatches, "map"}));         // summed over shifted products
  EXPECT_EQ(input(one_filter), (Names{"map", "map", kPatches}));
  EXPECT_EQ(filter(one_filter), (Names{"map", kGradient, "map"}));  // as that of dy's images
  const Layer small{.n = 128, .c = 3, .h = 224, .w = 224, .k = 32, .r = 3, .s = 3, .stride = {2, 2}, .pad = {1, 1}};
  EXPECT_EQ(forward(small), (Names{"map", "map", kForward}));
  EXPECT_EQ(filter(small), (Names{"map", kGradient, "map", "map", "map"}));
  const Layer eights{.n = 28, .c = 8, .h = 169, .w = 169, .k = 8, .r = 11, .s = 11, .stride = {3, 3}};
  // Rows of 88 numbers in place, not a slice of 64 channels for each of 121 taps.
  EXPECT_EQ(forward(eights), (Names{"map", kForward}));
  // All phases of a strided input gradient at once, where few channels make products few.
  const Layer phases{.n = 68, .c = 3, .h = 25, .w = 201, .k = 15, .r = 3, .s = 3, .stride = {3, 3}, .pad = {1, 1}};
  EXPECT_EQ(input(phases), (Names{"map", "map", "map", "map", kForward, "map", "map"}));
  // ResNeXt's groups of 4 channels: filters of 0 and of several groups, and a gradient read from between zeros.
  const Layer narrow{.n = 64, .c = 128, .h = 56, .w = 56, .k = 128, .r = 3, .s = 3, .pad = {1, 1}, .groups = 32};
  EXPECT_EQ(forward(narrow), (Names{"map", "map", kForward}));
  EXPECT_EQ(input(narrow), (Names{"map", "map", kForward}));
  EXPECT_EQ(filter(narrow), (Names{kGradientPatches, "map"}));
  // f32: zeros for what tensor cores read by eights, then the planes of each.
  Layer floats = odd;
  floats.dtype = Dtype::f32, floats.math = Math::fp32;
  EXPECT_EQ(forward(floats), (Names{"map", "map", "reduce", "reduce", kForward}));
  const Layer wide{.n = 64, .c = 512, .h = 14, .w = 14, .k = 512, .r = 3, .s = 3, .pad = {1, 1}, .groups = 4};
  EXPECT_EQ(forward(wide), (Names{kForward}));
  EXPECT_EQ(input(wide), (Names{kForward}));
  EXPECT_EQ(filter(wide), (Names{kGradientPatches}));
}

// f32 under `ieee`: one filter fills a column of a tile; its taps fill nine or more.
TEST(CudaUnfold, GivesOddLayersOfFloatsToMultiplyAdds) {
  const std::string kFfma = "conv_ffma_sm90";
  using Names = std::vector<std::string>;
  const Layer one_filter{
      .n = 44, .c = 251, .h = 44, .w = 44, .k = 1, .r = 3, .s = 9, .dtype = Dtype::f32, .math = Math::ieee};
  EXPECT_EQ(programs(hopper_plans::forward("f", one_filter, Forward::plain)), (Names{"map", "map", kFfma, "map"}));
  const Layer one_channel{.n = 203,
                          .c = 1,
                          .h = 39,
                          .w = 39,
                          .k = 51,
                          .r = 8,
                          .s = 8,
                          .stride = {1, 2},
                          .pad = {3, 3},
                          .dtype = Dtype::f32,
                          .math = Math::ieee};
  const Names phases = programs(hopper_plans::input_grad("i", one_channel, false));
  EXPECT_GE(std::ranges::count(phases, kFfma), 1) << testing::PrintToString(phases);
  EXPECT_EQ(std::ranges::count(phases, "gemm"), 0) << testing::PrintToString(phases);
  const Layer few{.n = 9, .c = 107, .h = 51, .w = 193, .k = 24, .r = 6, .s = 6, .pad = {2, 2}, .dtype = Dtype::f32};
  EXPECT_EQ(programs(hopper_plans::filter_grad("g", few, Gradient::stored)), (Names{"map", kFfma, "map"}));
}

// Where a launch or two cost more than the portable kernel, or another family takes the layer, in f32, for groups.
TEST(CudaUnfold, LeavesOtherLayers) {
  const auto unchanged = [](const Layer& layer) {
    for (const Draft& draft :
         {hopper_plans::forward("f", layer, Forward::plain), hopper_plans::input_grad("i", layer, false),
          hopper_plans::filter_grad("g", layer, Gradient::stored)}) {
      Draft lowered = draft;
      cuda::unfold_convs(lowered.plan, hopper());
      EXPECT_EQ(to_string(lowered.plan), to_string(draft.plan));
    }
  };
  unchanged({.n = 2, .c = 3, .h = 8, .w = 8, .k = 5, .r = 3, .s = 3});
  unchanged({.n = 64, .c = 64, .h = 28, .w = 28, .k = 128, .r = 3, .s = 3, .pad = {1, 1}});
  unchanged({.n = 2, .c = 3, .h = 16, .w = 16, .k = 19, .r = 3, .s = 3, .dtype = Dtype::f32});
  unchanged({.n = 64, .c = 64, .h = 28, .w = 28, .k = 128, .r = 3, .s = 3, .pad = {1, 1}, .dtype = Dtype::f32});
  unchanged({.n = 16, .c = 96, .h = 32, .w = 32, .k = 96, .r = 3, .s = 3, .dtype = Dtype::f32, .groups = 4});
  unchanged({.n = 64, .c = 96, .h = 32, .w = 32, .k = 96, .r = 3, .s = 3, .dtype = Dtype::f32, .groups = 96});
  unchanged({.n = 2, .c = 16, .h = 8, .w = 8, .k = 16, .r = 3, .s = 3, .pad = {1, 1}, .groups = 4});
  unchanged({.n = 64, .c = 96, .h = 32, .w = 32, .k = 96, .r = 3, .s = 3, .pad = {1, 1}, .groups = 96});  // depthwise
  unchanged({.n = 64, .c = 512, .h = 14, .w = 14, .k = 512, .r = 3, .s = 3, .pad = {1, 1}, .groups = 4});
  for (const Layer& first :
       {Layer{.n = 64, .c = 3, .h = 224, .w = 224, .k = 64, .r = 3, .s = 3, .pad = {1, 1}},
        Layer{.n = 128, .c = 3, .h = 227, .w = 227, .k = 96, .r = 11, .s = 11, .stride = {4, 4}}}) {
    const Draft draft = hopper_plans::forward("first", first, Forward::bias_relu);
    Draft lowered = draft;
    cuda::unfold_convs(lowered.plan, hopper());
    EXPECT_EQ(to_string(lowered.plan), to_string(draft.plan));
  }
}

// A strided input gradient of f32 is small, or has few channels: one product of all phases, or one for each, takes less
// than a product that multiplies by zeros.
TEST(CudaUnfold, StridedInputGradientsOfFloatsHaveNoZeros) {
  for (const Math math : {Math::fp32, Math::tf32}) {
    const auto products = [&](std::int64_t n, std::int64_t c, std::int64_t side, std::int64_t k, int window) {
      const Layer layer{.n = n,
                        .c = c,
                        .h = side,
                        .w = side,
                        .k = k,
                        .r = window,
                        .s = window,
                        .stride = {4, 4},
                        .pad = {window / 2, window / 2},
                        .dtype = Dtype::f32,
                        .math = math};
      return programs(hopper_plans::input_grad("i", layer, false));
    };
    const auto is_product = [](const std::string& name) { return name != "map" && name != "reduce"; };
    const std::vector<std::string> few_channels = products(16, 4, 243, 24, 7), small = products(1, 16, 102, 15, 13);
    EXPECT_EQ(std::ranges::count_if(few_channels, is_product), 1) << testing::PrintToString(few_channels);
    EXPECT_GT(few_channels.size(), 1u);
    EXPECT_GT(small.size(), 1u);
  }
}

Layer strided(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t k, std::int64_t r,
              std::int64_t s, std::vector<int> stride, std::vector<int> pad, std::vector<int> dilation = {1, 1},
              int groups = 1) {
  return {.n = n,
          .c = c,
          .h = h,
          .w = w,
          .k = k,
          .r = r,
          .s = s,
          .stride = std::move(stride),
          .pad = std::move(pad),
          .dilation = std::move(dilation),
          .dtype = Dtype::f32,
          .math = Math::fp32,
          .groups = groups};
}

// The fastest on an H200: one product as it is, a product for each phase, or one of all phases, whose results
// another kernel interleaves. Microseconds of each; 0: not timed.
TEST(CudaUnfold, StridedInputGradientsOfFloatsTakeTheFastestForm) {
  const struct {
    const char* name;
    Layer layer;
    std::size_t gemms, planes;  // programs by multiply-adds and by tensor cores
    std::array<double, 3> measured;
  } kCases[] = {
      {"whole_small", strided(7, 136, 4, 49, 8, 5, 5, {2, 2}, {2, 2}), 1, 0, {9.2, 18.3, 14.4}},
      {"whole_line", strided(17, 120, 11, 11, 8, 13, 1, {1, 2}, {12, 0}, {2, 1}), 1, 0, {6.5, 10.4, 15.4}},
      {"phases_wide_window", strided(25, 54, 5, 147, 18, 2, 12, {3, 3}, {0, 0}, {1, 1}, 2), 6, 0, {70.4, 10.8, 23.8}},
      {"phases_1x1", strided(52, 62, 51, 13, 16, 1, 1, {2, 2}, {0, 0}), 1, 0, {15.9, 7.2, 21.8}},
      {"phases_dilated", strided(7, 161, 75, 5, 3, 15, 15, {4, 4}, {21, 21}, {3, 3}), 16, 0, {56.8, 27.7, 56.7}},
      {"phases_of_groups", strided(33, 375, 14, 14, 125, 2, 2, {3, 3}, {0, 0}, {1, 1}, 25), 4, 0, {27.3, 12.5, 38.4}},
      {"together_few_channels", strided(6, 8, 111, 111, 800, 3, 3, {3, 3}, {2, 2}, {2, 2}), 0, 1, {0, 156, 72.9}},
      {"together_groups_of_4", strided(1, 408, 175, 175, 408, 7, 7, {3, 3}, {0, 0}, {1, 1}, 102), 0, 1, {0, 276, 122}},
  };
  for (const auto& c : kCases) {
    const std::vector<std::string> names = programs(hopper_plans::input_grad(c.name, c.layer, false));
    const auto count = [&](const char* name) {
      return static_cast<std::size_t>(std::ranges::count(names, std::string(name)));
    };
    EXPECT_EQ(count("gemm"), c.gemms) << c.name << testing::PrintToString(std::pair(names, c.measured));
    EXPECT_EQ(count("conv_fprop_sm90"), c.planes) << c.name << testing::PrintToString(std::pair(names, c.measured));
  }
}

}  // namespace
}  // namespace nixie
#endif
