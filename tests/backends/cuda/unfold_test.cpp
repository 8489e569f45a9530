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
  return {
      {"stem", "2x3x20x22 by 16x7x7 stride 2 pad 3"},
      {"stem_of_a_column_stride", "2x5x12x31 by 24x3x5 stride 1x3 pad 1x2"},
      {"more_stride_than_taps", "2x6x13x18 by 16x2x3 stride 3x4 pad 0x1"},
      {"stem_row_major", "2x3x21x19 by 16x7x7 stride 2 pad 3 bf16 row_major"},
      {"one_channel", "3x1x11x9 by 19x3x3 pad 1"},
      {"one_filter", "2x20x9x12 by 1x5x3 pad 2x0"},
      {"one_of_both", "2x1x13x12 by 1x4x4 stride 2x1 pad 1x2"},
      {"pointwise", "2x82x5x7 by 74x1x1"},
      {"pointwise_stride_3x2", "2x12x11x10 by 5x1x1 stride 3x2 pad 0x1 bf16"},
      {"odd_3x3", "1x283x5x5 by 19x3x3 pad 1"},
      {"many_filters", "1x5x6x7 by 761x3x2 pad 1"},
      {"rows_1x15", "2x2x6x31 by 5x1x15 stride 1x2 pad 0x7"},
      {"columns_15x1", "2x7x31x6 by 2x15x1 stride 3x1 pad 7x0"},
      {"dilated", "2x3x17x19 by 5x3x4 pad 2x3 dilation 2x3"},
      {"dilated_and_strided", "1x7x23x21 by 2x3x3 stride 2x3 pad 2x1 dilation 3x1"},
      {"padding_beyond_the_window", "2x2x5x6 by 5x2x3 pad 4x3"},
      {"patches_4x4_with_an_edge", "2x7x15x18 by 12x4x4 stride 4 pad 1"},
      {"stride_3_of_7x5", "1x3x17x16 by 9x7x5 stride 3x2 pad 3x1"},
      {"strided_and_dilated_2x2", "2x5x12x11 by 10x3x3 stride 2 pad 2 dilation 2"},
      {"every_second_pixel", "2x12x27x22 by 8x6x6 stride 4 pad 5 dilation 2"},
      {"every_third_pixel_of_an_axis", "2x5x19x24 by 10x3x4 stride 3x2 pad 4x1 dilation 3x1"},
      {"unread_edge", "2x12x10x11 by 20x3x3 stride 4"},
      {"patches_2x2", "2x12x8x10 by 7x2x2 stride 2"},
      // In groups: whole blocks and a smaller last one, zeros after channels or filters of a block, all in one.
      {"groups_of_4", "2x32x7x8 by 32x3x3 pad 1 groups 8"},
      {"groups_3_to_5", "2x21x6x9 by 35x2x3 pad 1x0 groups 7"},
      {"groups_of_2_the_last_block_smaller", "1x46x6x7 by 46x3x3 pad 1 groups 23"},
      {"groups_of_20_to_9", "2x60x8x7 by 27x3x3 pad 1 groups 3"},
      {"groups_of_18_to_24_strided_bf16", "2x36x11x9 by 48x3x3 stride 2 pad 1 dilation 1x2 groups 2 bf16"},
      {"groups_of_6_row_major", "2x24x6x5 by 24x5x1 pad 2x0 groups 4 row_major"},
      {"one_pixel", "3x5x1x1 by 2x3x3 pad 1"},
      // f32, which lowering splits into planes afterwards.
      {"odd_f32", "2x13x12x11 by 21x3x3 pad 1 f32 fp32"},
      {"odd_5x7_tf32", "2x9x12x14 by 20x5x7 pad 3 f32 tf32 row_major"},
      {"phases_f32", "2x3x21x18 by 17x5x4 stride 3x2 pad 2x1 f32 fp32"},
      {"phases_dilated_tf32", "2x5x12x11 by 10x3x3 stride 2 pad 2 dilation 2 f32 tf32 row_major"},
      // f32 by multiply-adds, in fours.
      {"odd_ieee", "2x13x12x11 by 21x3x3 pad 1 f32"},
      {"stem_ieee", "2x3x20x22 by 18x7x5 stride 2x3 pad 3x2 f32"},
      {"one_filter_ieee_row_major", "2x18x9x13 by 1x3x9 pad 0x4 f32 row_major"},
      {"phases_dilated_ieee", "2x5x12x11 by 10x3x3 stride 2 pad 2 dilation 2 f32"},
      {"groups_of_3_to_5_ieee", "2x9x7x6 by 15x3x2 pad 1 groups 3 f32"},
      {"groups_of_12_f32", "2x96x6x5 by 96x3x3 pad 1 groups 8 f32 fp32"},
      {"groups_of_6_f32", "2x24x6x5 by 24x3x3 pad 1 groups 4 f32 fp32"},
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
    if (std::ranges::any_of(all, same)) return all;
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
      cuda_plans::expect_close(found, expected, cuda_plans::Bound{}, draft.name + "\n" + to_string(form.plan));
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
    const std::vector<Array> expected = cuda_plans::run_in_doubles(draft, eighths);
    for (const Draft& form : some_of(in_all_forms(draft), 10)) {
      cuda_plans::expect_close(cuda_plans::run(*cuda, form, 2, eighths), expected, cuda_plans::one_rounding,
                               draft.name + "\n" + to_string(form.plan));
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
  const Layer stem{"128x3x224x224 by 64x7x7 stride 2 pad 3"}, odd{"32x82x40x40 by 74x3x3 pad 1"},
      one_filter{"16x256x64x64 by 1x5x5 pad 2"};
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
  const Layer small{"128x3x224x224 by 32x3x3 stride 2 pad 1"};
  EXPECT_EQ(forward(small), (Names{"map", "map", kForward}));
  EXPECT_EQ(filter(small), (Names{"map", kGradient, "map", "map", "map"}));
  const Layer eights{"28x8x169x169 by 8x11x11 stride 3"};
  // Rows of 88 numbers in place, not a slice of 64 channels for each of 121 taps.
  EXPECT_EQ(forward(eights), (Names{"map", kForward}));
  // All phases of a strided input gradient at once, where few channels make products few.
  const Layer phases{"68x3x25x201 by 15x3x3 stride 3 pad 1"};
  EXPECT_EQ(input(phases), (Names{"map", "map", "map", "map", kForward, "map", "map"}));
  // ResNeXt's groups of 4 channels: filters of several groups with zeros between them, and a gradient read from there.
  const Layer narrow{"64x128x56x56 by 128x3x3 pad 1 groups 32"};
  EXPECT_EQ(forward(narrow), (Names{"map", kForward}));
  EXPECT_EQ(input(narrow), (Names{"map", kForward}));
  EXPECT_EQ(filter(narrow), (Names{kGradientPatches, "map"}));
  // f32: zeros for what tensor cores read by eights, then the planes of each.
  Layer floats = odd;
  floats.dtype = Dtype::f32, floats.math = Math::fp32;
  EXPECT_EQ(forward(floats), (Names{"map", "map", "reduce", "reduce", kForward}));
  const Layer wide{"64x512x14x14 by 512x3x3 pad 1 groups 4"};
  EXPECT_EQ(forward(wide), (Names{kForward}));
  EXPECT_EQ(input(wide), (Names{kForward}));
  EXPECT_EQ(filter(wide), (Names{kGradientPatches}));
}

// f32 under `ieee`: one filter fills a column of a tile; its taps fill nine or more.
TEST(CudaUnfold, GivesOddLayersOfFloatsToMultiplyAdds) {
  const std::string kFfma = "conv_ffma_sm90";
  using Names = std::vector<std::string>;
  const Layer one_filter{"44x251x44x44 by 1x3x9 f32"};
  EXPECT_EQ(programs(hopper_plans::forward("f", one_filter, Forward::plain)), (Names{"map", "map", kFfma, "map"}));
  const Layer one_channel{"203x1x39x39 by 51x8x8 stride 1x2 pad 3 f32"};
  const Names phases = programs(hopper_plans::input_grad("i", one_channel, false));
  EXPECT_GE(std::ranges::count(phases, kFfma), 1) << testing::PrintToString(phases);
  EXPECT_EQ(std::ranges::count(phases, "gemm"), 0) << testing::PrintToString(phases);
  const Layer few{"9x107x51x193 by 24x6x6 pad 2 f32"};
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
  unchanged("2x3x8x8 by 5x3x3");
  unchanged("64x64x28x28 by 128x3x3 pad 1");
  unchanged("2x3x16x16 by 19x3x3 f32");
  unchanged("64x64x28x28 by 128x3x3 pad 1 f32");
  unchanged("16x96x32x32 by 96x3x3 groups 4 f32");
  unchanged("64x96x32x32 by 96x3x3 groups 96 f32");
  unchanged("2x12x8x8 by 12x3x3 pad 1 groups 3");
  unchanged("64x96x32x32 by 96x3x3 pad 1 groups 96");  // depthwise
  unchanged("64x512x14x14 by 512x3x3 pad 1 groups 4");
  for (const Layer first : {"64x3x224x224 by 64x3x3 pad 1", "128x3x227x227 by 96x11x11 stride 4"}) {
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
      const Layer layer(
          fmt::format("{0}x{1}x{2}x{2} by {3}x{4}x{4} stride 4 pad {5} f32", n, c, side, k, window, window / 2) +
          (math == Math::fp32 ? " fp32" : " tf32"));
      return programs(hopper_plans::input_grad("i", layer, false));
    };
    const auto is_product = [](const std::string& name) { return name != "map" && name != "reduce"; };
    const std::vector<std::string> few_channels = products(16, 4, 243, 24, 7), small = products(1, 16, 102, 15, 13);
    EXPECT_EQ(std::ranges::count_if(few_channels, is_product), 1) << testing::PrintToString(few_channels);
    EXPECT_GT(few_channels.size(), 1u);
    EXPECT_GT(small.size(), 1u);
  }
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
      {"whole_small", "7x136x4x49 by 8x5x5 stride 2 pad 2 f32 fp32", 1, 0, {9.2, 18.3, 14.4}},
      {"whole_line", "17x120x11x11 by 8x13x1 stride 1x2 pad 12x0 dilation 2x1 f32 fp32", 1, 0, {6.5, 10.4, 15.4}},
      {"phases_wide_window", "25x54x5x147 by 18x2x12 stride 3 groups 2 f32 fp32", 6, 0, {70.4, 10.8, 23.8}},
      {"phases_1x1", "52x62x51x13 by 16x1x1 stride 2 f32 fp32", 1, 0, {15.9, 7.2, 21.8}},
      {"phases_dilated", "7x161x75x5 by 3x15x15 stride 4 pad 21 dilation 3 f32 fp32", 16, 0, {56.8, 27.7, 56.7}},
      {"phases_of_groups", "33x375x14x14 by 125x2x2 stride 3 groups 25 f32 fp32", 4, 0, {27.3, 12.5, 38.4}},
      {"together_few_channels", "6x8x111x111 by 800x3x3 stride 3 pad 2 dilation 2 f32 fp32", 0, 1, {0, 156, 72.9}},
      {"together_groups_of_4", "1x408x175x175 by 408x7x7 stride 3 groups 102 f32 fp32", 0, 1, {0, 276, 122}},
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
