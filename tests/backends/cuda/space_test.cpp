// Convolutions and poolings of one and three spatial axes as ones of two: lowered plans on the CPU, in doubles, against
// the plans as they were; which kernels for tensor cores then take them; with a device, results against doubles.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/head_plans.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/compiler_log.h"

namespace nixie {
namespace {

using cuda_plans::Draft;
using cuda_plans::eighths;
using cuda_plans::expect_unchanged;

struct Case {
  std::string name;
  Shape x, w;
  Conv conv;
  int gradients = 1;  ///< input gradients that become planar: none of a depth with strides
};

int heads_over(const Plan& plan, int rank) {
  int heads = 0;
  for (const Kernel& kernel : plan.kernels) heads += kernel.head && kernel.domain.rank() == rank;
  return heads;
}

// Windows of one plane and of many; strides, dilations and paddings along the depth; groups; channels that are padded.
std::vector<Case> volumes() {
  return {
      {"3x3x3", {2, 8, 5, 6, 7}, {6, 8, 3, 3, 3}, {.stride = {1, 1, 1}, .pad = {1, 1, 1}, .dilation = {1, 1, 1}}},
      {"unpadded", {2, 4, 5, 6, 7}, {6, 4, 2, 3, 1}, {.stride = {1, 2, 1}, .pad = {0, 1, 0}, .dilation = {1, 1, 1}}},
      {"one_plane", {2, 3, 5, 6, 7}, {4, 3, 1, 3, 3}, {.stride = {1, 1, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}}},
      {"1x1x1", {2, 3, 4, 3, 5}, {4, 3, 1, 1, 1}, {.stride = {1, 1, 1}, .pad = {0, 0, 0}, .dilation = {1, 1, 1}}},
      {"odd_channels",
       {1, 3, 4, 5, 6},
       {5, 3, 3, 3, 3},
       {.stride = {1, 1, 1}, .pad = {1, 1, 1}, .dilation = {1, 1, 1}}},
      {"dilated", {2, 4, 9, 6, 6}, {4, 4, 3, 3, 3}, {.stride = {1, 1, 1}, .pad = {2, 2, 1}, .dilation = {2, 2, 1}}},
      {"strided", {2, 4, 9, 6, 7}, {4, 4, 3, 3, 3}, {.stride = {2, 2, 2}, .pad = {1, 1, 1}, .dilation = {1, 1, 1}}, 0},
      {"wide_pad", {1, 2, 2, 4, 4}, {3, 2, 3, 2, 2}, {.stride = {1, 1, 1}, .pad = {3, 0, 0}, .dilation = {1, 1, 1}}},
      {"groups",
       {2, 6, 4, 5, 5},
       {4, 3, 3, 3, 3},
       {.stride = {1, 1, 1}, .pad = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 2}},
      {"depthwise",
       {2, 6, 4, 5, 5},
       {6, 1, 3, 3, 3},
       {.stride = {1, 1, 1}, .pad = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 6}},
  };
}

class Volumes : public testing::TestWithParam<Case> {};

TEST_P(Volumes, AreConvolutionsOfPlanes) {
  const Case& c = GetParam();
  for (bool channels_last : {false, true}) {
    const std::vector<Draft> drafts = cuda_plans::convolutions(Dtype::f64, c.x, c.w, c.conv, channels_last);
    for (const Draft& draft : drafts) {
      SCOPED_TRACE(draft.name);
      Draft lowered = draft;
      cuda::lower_to_planes(lowered.plan, cuda::chip_named("sm_90a"), true);
      const bool stays = draft.name == "conv_input_grad" && c.gradients == 0;
      EXPECT_EQ(heads_over(lowered.plan, 4), stays ? 0 : 1);
      EXPECT_EQ(heads_over(lowered.plan, 5), stays ? 1 : 0);
      expect_unchanged(draft, lowered);
    }
  }
}

// Where copies are to be small, images take turns.
TEST_P(Volumes, TakeTurns) {
  const Case& c = GetParam();
  for (const Draft& draft : cuda_plans::convolutions(Dtype::f64, c.x, c.w, c.conv, true)) {
    Draft lowered = draft;
    cuda::lower_to_planes(lowered.plan, cuda::chip_named("sm_90a"), true, 1);
    EXPECT_LE(heads_over(lowered.plan, 4), c.x[0]) << draft.name;
    expect_unchanged(draft, lowered);
  }
}

// In phases strided input gradients are of stride 1.
TEST_P(Volumes, HaveStridedGradientsInPhases) {
  const Case& c = GetParam();
  const Draft draft = cuda_plans::convolutions(Dtype::f64, c.x, c.w, c.conv, true)[1];
  Draft lowered = draft;
  cuda::lower_strided_input_grads(lowered.plan, true);
  cuda::lower_to_planes(lowered.plan, cuda::chip_named("sm_90a"), true);
  EXPECT_EQ(heads_over(lowered.plan, 5), 0);
  expect_unchanged(draft, lowered);
}

INSTANTIATE_TEST_SUITE_P(Layers, Volumes, testing::ValuesIn(volumes()),
                         [](const auto& info) { return info.param.name; });

// Windows of one pixel of a plane, whatever their depth; others stay.
TEST(Space, WindowsAlongTheDepthAreOverThePixelsOfPlanes) {
  const std::vector<Case> depths = {
      {"3x1x1", {2, 8, 5, 6, 7}, {6, 8, 3, 1, 1}, {.stride = {1, 1, 1}, .pad = {1, 0, 0}, .dilation = {1, 1, 1}}},
      {"strided_groups",
       {2, 6, 9, 4, 3},
       {4, 3, 3, 1, 1},
       {.stride = {2, 1, 1}, .pad = {2, 0, 0}, .dilation = {2, 1, 1}, .groups = 2}},
      {"one_row", {1, 4, 5, 1, 7}, {3, 4, 2, 1, 1}, {.stride = {1, 1, 1}, .pad = {0, 0, 0}, .dilation = {1, 3, 1}}},
      {"3x1x3", {2, 8, 5, 6, 7}, {6, 8, 3, 1, 3}, {.stride = {1, 1, 1}, .pad = {1, 0, 1}, .dilation = {1, 1, 1}}},
      {"padded", {2, 8, 5, 6, 7}, {6, 8, 3, 1, 1}, {.stride = {1, 1, 1}, .pad = {1, 1, 0}, .dilation = {1, 1, 1}}},
      {"steps", {2, 8, 5, 6, 7}, {6, 8, 3, 1, 1}, {.stride = {1, 2, 1}, .pad = {1, 0, 0}, .dilation = {1, 1, 1}}},
  };
  for (const Case& c : depths)
    for (bool channels_last : {false, true})
      for (const Draft& draft : cuda_plans::convolutions(Dtype::f64, c.x, c.w, c.conv, channels_last)) {
        SCOPED_TRACE(c.name + " " + draft.name);
        const bool stays = c.w[4] > 1 || c.conv.pad[1] > 0 || c.conv.stride[1] > 1;
        Draft lowered = draft;
        cuda::merge_pixels(lowered.plan);
        EXPECT_EQ(heads_over(lowered.plan, 4), stays ? 0 : 1);
        expect_unchanged(draft, lowered);
      }
}

TEST(Space, LinesAreImagesOfOneRow) {
  const std::vector<Case> lines = {
      {"odd", {3, 4, 17}, {6, 4, 5}, {.stride = {2}, .pad = {3}, .dilation = {2}}},
      {"groups", {3, 4, 17}, {6, 2, 3}, {.stride = {1}, .pad = {1}, .dilation = {1}, .groups = 2}},
      {"one_pixel", {3, 4, 1}, {6, 4, 1}, {.stride = {1}, .pad = {0}, .dilation = {1}}},
  };
  for (const Case& c : lines)
    for (bool channels_last : {false, true})
      for (const Draft& draft : cuda_plans::convolutions(Dtype::f64, c.x, c.w, c.conv, channels_last)) {
        SCOPED_TRACE(c.name + " " + draft.name);
        Draft lowered = draft;
        cuda::give_second_axis(lowered.plan);
        EXPECT_EQ(heads_over(lowered.plan, 4), 1);
        expect_unchanged(draft, lowered);
      }
}

TEST(Space, PoolingsOfLinesAndOfPlanesAreOfTwoAxes) {
  using Sizes = std::vector<int>;
  struct Pooling {
    Shape x, y;
    Sizes window, stride, pad;
  };
  const std::vector<Pooling> poolings = {
      {{2, 6, 9}, {2, 6, 5}, {1, 3}, {1, 2}, {0, 1}},
      {{2, 4, 3, 6, 8}, {2, 4, 3, 3, 4}, {1, 1, 2, 2}, {1, 1, 2, 2}, {0, 0, 0, 0}},
  };
  for (const Pooling& p : poolings)
    for (PoolRole role : {PoolRole::output, PoolRole::index, PoolRole::input_grad}) {
      const Pool pool{PoolKind::max, role, p.window, p.stride, p.pad};
      const bool gradient = role == PoolRole::input_grad;
      const Draft draft = cuda_plans::headed(fmt::format("pool {} {}", p.x, static_cast<int>(role)), pool, Dtype::f64,
                                             gradient ? std::vector<Shape>{p.y, p.y} : std::vector<Shape>{p.x},
                                             gradient ? p.x : p.y, true, false);
      Draft lowered = draft;
      cuda::give_second_axis(lowered.plan);
      cuda::lower_to_planes(lowered.plan, cuda::chip_named("sm_90a"), true);
      EXPECT_EQ(heads_over(lowered.plan, 4), 1) << draft.name;
      expect_unchanged(draft, lowered);
    }
}

// The normalisation of their results is over the same planes, so that it can take sums from their epilogues.
TEST(Space, TakesKernelsAlongThatReadTheResults) {
  const Shape x{2, 8, 4, 5, 6}, w{8, 8, 3, 3, 3};
  Draft draft = cuda_plans::convolutions(Dtype::f64, x, w,
                                         {.stride = {1, 1, 1}, .pad = {1, 1, 1}, .dilation = {1, 1, 1}}, true)[0];
  const int y = draft.outputs[0];
  Kernel sums{.label = "sum", .domain = x, .reduced = {0, 2, 3, 4}};
  sums.loads = {draft.dense(y)};
  sums.stores = {{draft.output(Dtype::f64, {1, 8, 1, 1, 1}), 0, {0, 1, 0, 0, 0}}};
  sums.carried = {Dtype::f64};
  sums.stages = {{.body = {cuda_plans::load(0, Dtype::f64)}, .reductions = {{ReduceKind::sum, 0, 0}}},
                 {.full = false, .body = {cuda_plans::carried(0, Dtype::f64)}, .stores = {{0, 0}}}};
  draft.plan.kernels.push_back(sums);
  Draft lowered = draft;
  cuda::lower_to_planes(lowered.plan, cuda::chip_named("sm_90a"), true);
  EXPECT_EQ(lowered.plan.kernels.back().domain, (Shape{8, 8, 5, 6}));
  EXPECT_EQ(lowered.plan.kernels.back().reduced, (Axes{0, 2, 3}));
  expect_unchanged(draft, lowered);
}

// Lines and volumes of halves, large enough to leave the portable kernels on Hopper in every role.
std::vector<Case> large() {
  const Conv line{.stride = {1}, .pad = {7}, .dilation = {1}},
      volume{.stride = {1, 1, 1}, .pad = {1, 1, 1}, .dilation = {1, 1, 1}},
      depth{.stride = {1, 1, 1}, .pad = {1, 0, 0}, .dilation = {1, 1, 1}};
  return {{"line", {64, 128, 625}, {128, 128, 15}, line},
          {"volume", {4, 64, 16, 28, 28}, {128, 64, 3, 3, 3}, volume},
          {"depth", {4, 144, 8, 28, 28}, {64, 144, 3, 1, 1}, depth},
          {"first_of_three_channels", {4, 3, 16, 56, 56}, {64, 3, 3, 3, 3}, volume}};
}

std::vector<Draft> in_halves(const Case& c) { return cuda_plans::convolutions(Dtype::f16, c.x, c.w, c.conv, true); }

TEST(CudaSpace, TensorCoresComputeLinesAndVolumes) {
  const auto families = [](const Case& c) {
    std::vector<std::string> names;
    for (Draft& draft : in_halves(c)) {
      cuda::lower(draft.plan, cuda::chip_named("sm_90a"));
      for (const Group& group : draft.plan.groups)
        for (int member : group.members)
          if (draft.plan.kernels[static_cast<std::size_t>(member)].head) names.push_back(group.implementation->name());
    }
    return names;
  };
  for (const Case& c : large())
    for (const std::string& family : families(c)) EXPECT_NE(family, "gemm") << c.name;
  const Case small{"small", {1, 4, 3, 4, 4}, {4, 4, 3, 3, 3}, large()[1].conv};
  for (const std::string& family : families(small)) EXPECT_EQ(family, "gemm");
}

TEST(CudaSpace, Compiles) {
  const cuda::Chip hopper = cuda::chip_named("sm_90a");
  std::vector<std::string> sources;
  for (const Case& c : large())
    for (Draft& draft : in_halves(c)) {
      cuda::lower(draft.plan, hopper);
      plan_memory(draft.plan);
      for (const Group& group : draft.plan.groups) sources.push_back(cuda::generate(draft.plan, group, hopper).source);
    }
  for (const cuda::Cubin& cubin : cuda::compile_sources(sources, "sm_90a"))
    EXPECT_EQ(cuda::complaints(cubin.log, 64), "");
}

TEST(CudaSpace, AgreesWithDoubles) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  std::vector<Case> cases = large();
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].x = cases[i].x.with(0, i == 0 ? 16 : 1);
  for (const Case& c : cases)
    for (const Draft& draft : in_halves(c)) {
      const std::vector<Array> expected =
                                   cuda_plans::run(*make_cpu_backend(), cuda_plans::in_doubles(draft), 1, eighths),
                               found = cuda_plans::run(*cuda, draft, 2, eighths);
      for (std::size_t i = 0; i < found.size(); ++i)
        cuda_plans::expect_close(found[i], expected[i], {.of_itself = 0x1p-10, .of_largest = 3e-6},
                                 c.name + " " + draft.name);
    }
}

}  // namespace
}  // namespace nixie
#endif
