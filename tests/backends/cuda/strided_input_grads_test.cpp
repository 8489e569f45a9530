// Input gradients of strided convolutions in phases: lowered plans on the CPU, in doubles, against the convolution as
// it was; how many products are left; what small ones cost.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/tests/backends/cuda/head_plans.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/draft_runner.h"

namespace nixie {
namespace {

using cuda_plans::Draft;
using cuda_plans::expect_unchanged;

struct Case {
  std::string name;
  Shape x, w;
  Conv conv;
  int products;  ///< kernels with a head that phases make, of those that have pixels and taps

  Draft draft(bool channels_last = true) const {
    Conv op = conv;
    op.role = ConvRole::input_grad;
    return cuda_plans::headed(name, op, Dtype::f64, {cuda_plans::results_of(conv, x, w), w}, x, channels_last);
  }
};

// Windows smaller than, as large as and larger than the stride; strides with a common divisor with the dilation and
// without; edges that no window reaches, and pads wider than the window.
std::vector<Case> cases() {
  return {
      {"3x3_stride_2", {2, 4, 8, 8}, {5, 4, 3, 3}, {.stride = {2, 2}, .pad = {1, 1}, .dilation = {1, 1}}, 4},
      {"odd_sizes", {3, 4, 9, 11}, {5, 4, 3, 3}, {.stride = {2, 2}, .pad = {1, 1}, .dilation = {1, 1}}, 4},
      {"1x1_stride_2", {2, 3, 8, 7}, {6, 3, 1, 1}, {.stride = {2, 2}, .pad = {0, 0}, .dilation = {1, 1}}, 1},
      {"1x1_stride_3_padded", {2, 3, 8, 7}, {6, 3, 1, 1}, {.stride = {3, 3}, .pad = {2, 1}, .dilation = {1, 1}}, 1},
      {"7x7_stride_2", {1, 3, 21, 20}, {4, 3, 7, 7}, {.stride = {2, 2}, .pad = {3, 3}, .dilation = {1, 1}}, 4},
      {"11x5_stride_4x3", {2, 3, 23, 19}, {4, 3, 11, 5}, {.stride = {4, 3}, .pad = {2, 0}, .dilation = {1, 1}}, 12},
      {"2x2_patches", {2, 3, 8, 6}, {4, 3, 2, 2}, {.stride = {2, 2}, .pad = {0, 0}, .dilation = {1, 1}}, 4},
      {"4x4_stride_2", {2, 3, 8, 6}, {4, 3, 4, 4}, {.stride = {2, 2}, .pad = {1, 1}, .dilation = {1, 1}}, 4},
      {"one_axis", {2, 3, 9, 6}, {4, 3, 3, 3}, {.stride = {1, 2}, .pad = {1, 1}, .dilation = {1, 1}}, 2},
      {"dilation_2_stride_2", {2, 3, 13, 12}, {4, 3, 3, 3}, {.stride = {2, 2}, .pad = {2, 1}, .dilation = {2, 2}}, 1},
      {"dilation_2_stride_3", {2, 3, 17, 16}, {4, 3, 4, 3}, {.stride = {3, 3}, .pad = {1, 2}, .dilation = {2, 2}}, 9},
      {"dilation_6_stride_4", {1, 2, 40, 38}, {3, 2, 4, 3}, {.stride = {4, 4}, .pad = {3, 7}, .dilation = {6, 6}}, 4},
      {"unread_edge", {2, 3, 10, 11}, {4, 3, 3, 3}, {.stride = {4, 4}, .pad = {0, 0}, .dilation = {1, 1}}, 9},
      {"wide_pad", {2, 3, 5, 4}, {4, 3, 2, 2}, {.stride = {2, 2}, .pad = {4, 3}, .dilation = {1, 1}}, 4},
      {"stride_beyond_image", {2, 3, 3, 2}, {4, 3, 3, 2}, {.stride = {5, 5}, .pad = {0, 0}, .dilation = {1, 1}}, 6},
      {"groups", {2, 8, 9, 8}, {6, 4, 3, 3}, {.stride = {2, 2}, .pad = {1, 1}, .dilation = {1, 1}, .groups = 2}, 4},
      {"depthwise", {2, 6, 9, 8}, {12, 1, 3, 3}, {.stride = {2, 2}, .pad = {1, 1}, .dilation = {1, 1}, .groups = 6}, 4},
      {"one_dimension", {3, 4, 29}, {5, 4, 5}, {.stride = {3}, .pad = {2}, .dilation = {2}}, 3},
      {"three_dimensions",
       {1, 2, 7, 8, 9},
       {3, 2, 3, 2, 3},
       {.stride = {2, 1, 2}, .pad = {1, 0, 1}, .dilation = {1, 1, 1}},
       4},
  };
}

Draft in_phases(Draft draft) {
  cuda::lower_strided_input_grads(draft.plan, true);
  return draft;
}

class StridedInputGrads : public testing::TestWithParam<Case> {};

TEST_P(StridedInputGrads, ArePhasesOfStride1) {
  for (bool channels_last : {false, true}) {
    const Draft draft = GetParam().draft(channels_last), lowered = in_phases(draft);
    int products = 0;
    std::int64_t pixels = 0;
    for (const Kernel& kernel : lowered.plan.kernels) {
      pixels += kernel.domain.size();
      if (!kernel.head) continue;
      ++products;
      for (int stride : std::get<Conv>(kernel.head->op).stride) EXPECT_EQ(stride, 1);
    }
    EXPECT_EQ(products, GetParam().products);
    EXPECT_EQ(pixels, draft.plan.kernels[0].domain.size());
    expect_unchanged(draft, lowered);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, StridedInputGrads, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// A gate and a sum that is updated in place are taken pixel by pixel; so is a value that is only there in a part.
TEST(StridedInputGrads, TakeWhatFollowsAlong) {
  const Case layer = cases()[1];
  Draft draft = layer.draft();
  Kernel& kernel = draft.plan.kernels[0];
  const int sum = draft.output(Dtype::f64, layer.x);
  Access part = draft.dense(draft.slot(Dtype::f64, layer.x));
  part.inside = {{0, 3}, {1, 4}, {2, 7}, {3, 10}}, part.fill = 2;
  const int loads = static_cast<int>(kernel.loads.size());
  kernel.loads.insert(kernel.loads.end(), {draft.dense(sum), part});
  kernel.stores.push_back(draft.dense(sum));
  Stage& stage = kernel.stages[0];
  const int value = stage.stores[0].value;
  const auto add = [&](const Instruction& in) {
    stage.body.push_back(in);
    return static_cast<int>(stage.body.size()) - 1;
  };
  const auto of_type = [](Instruction in) {
    in.type = Dtype::f64;
    return in;
  };
  const int old = add(of_type(cuda_plans::load(loads))), bounded = add(of_type(cuda_plans::load(loads + 1)));
  const int gated = add(of_type(cuda_plans::apply(Primitive::mul, {value, bounded})));
  stage.stores.push_back({add(of_type(cuda_plans::apply(Primitive::add, {old, gated}))), 1});
  expect_unchanged(draft, in_phases(draft));
}

// Random numbers are drawn by position: they stay in a kernel over all pixels.
TEST(StridedInputGrads, LeavePositionsToAKernelOfTheirOwn) {
  Draft draft = cases()[0].draft();
  Stage& stage = draft.plan.kernels[0].stages[0];
  const int axis = static_cast<int>(stage.body.size());
  stage.body.push_back({.primitive = Primitive::coordinate, .type = Dtype::i32, .index = 3});
  stage.body.push_back({.primitive = Primitive::cast, .type = Dtype::f64, .args = {axis}});
  stage.body.push_back({.primitive = Primitive::mul, .type = Dtype::f64, .args = {stage.stores[0].value, axis + 1}});
  stage.stores[0].value = axis + 2;
  const Draft lowered = in_phases(draft);
  EXPECT_EQ(lowered.plan.kernels.size(), 5u);
  EXPECT_FALSE(lowered.plan.kernels.back().head);
  expect_unchanged(draft, lowered);
}

TEST(StridedInputGrads, StayOneKernelWhereProductsAreFew) {
  const auto kernels = [](const Shape& x, const Shape& w, int stride) {
    Draft draft = Case{"", x, w, {.stride = {stride, stride}, .pad = {1, 1}, .dilation = {1, 1}}, 0}.draft();
    cuda::lower_strided_input_grads(draft.plan);
    return draft.plan.kernels.size();
  };
  EXPECT_EQ(kernels({128, 256, 28, 28}, {256, 256, 3, 3}, 2), 4u);
  EXPECT_EQ(kernels({2, 32, 9, 9}, {32, 32, 3, 3}, 2), 1u);
  EXPECT_EQ(kernels({128, 256, 28, 28}, {256, 256, 3, 3}, 1), 1u);
}

}  // namespace
}  // namespace nixie
#endif
