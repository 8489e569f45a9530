// What the CUDA backend changes in a plan changes no result: lowered plans on the CPU against plans as they were.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "backends/cpu/backend.h"
#include "backends/cuda/lowering.h"
#include "backends/cuda/matmul.h"
#include "core/array.h"
#include "core/memory.h"
#include "tests/backends/cuda_plans.h"

namespace nixie {
namespace {

using cuda_plans::Draft;

// One number of what the plan reads.
using Draw = std::function<float(std::mt19937&)>;
float any_number(std::mt19937& random) { return std::uniform_real_distribution<float>(-1, 1)(random); }

// Of a plan whose memory is laid out.
std::vector<float> run_on_cpu(const Plan& plan, int output, const Draw& draw = any_number) {
  const auto cpu = make_cpu_backend(1);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::mt19937 random(5);
  for (int slot : plan.externals) {
    const Slot& s = plan.slots[static_cast<std::size_t>(slot)];
    Array array(s.dtype, s.shape);
    for (float& x : array.data<float>()) x = draw(random);
    buffers.push_back(cpu->allocate(array.size_bytes()));
    cpu->upload(array.bytes(), *buffers.back(), array.size_bytes());
  }
  cpu->compile(plan)->run(buffers, plan.scalars);
  Array result(Dtype::f32, plan.slots[static_cast<std::size_t>(output)].shape);
  cpu->download(*buffers[static_cast<std::size_t>(output)], result.bytes(), result.size_bytes());
  return result.to_vector<float>();
}

TEST(CudaLowering, ChangesNoResult) {
  std::vector<Draft> drafts = cuda_plans::all_products(Dtype::f32);
  for (Draft& draft : cuda_plans::all_convolutions(Dtype::f32)) drafts.push_back(std::move(draft));
  int changed = 0;
  for (const Draft& draft : drafts) {
    Plan plain = draft.plan, lowered = draft.plan;
    cuda::lower(lowered);
    for (Plan* plan : {&plain, &lowered}) plan_memory(*plan);
    changed += lowered.kernels.size() > draft.plan.kernels.size();
    const std::vector<float> expected = run_on_cpu(plain, draft.outputs[0]),
                             found = run_on_cpu(lowered, draft.outputs[0]);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << draft.name << " element " << i;
  }
  EXPECT_GT(changed, 5);
}

Plan product_with_bias_and_relu() {
  return cuda_plans::headed("product", Matmul{}, Dtype::f32, {{8, 4}, {4, 16}}, {8, 16}).plan;
}

TEST(CudaLowering, LeavesAProductWithItsBiasAndReluToTheLibrary) {
  Plan plan = product_with_bias_and_relu();
  cuda::lower(plan);
  ASSERT_EQ(plan.kernels.size(), 1u);
  const auto problem = cuda::as_blas(plan, plan.kernels[0]);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->rows, 16);  // column-major: the transpose
  EXPECT_EQ(problem->columns, 8);
  EXPECT_EQ(problem->inner, 4);
  EXPECT_TRUE(problem->bias);
  EXPECT_TRUE(problem->relu);
}

// A net of two layers: what waited for a layer's product waits for its ReLU.
TEST(CudaLowering, AReluThatTheLibraryLosesNanInIsAKernelOfItsOwn) {
  for (bool biased : {false, true}) {
    Draft draft = cuda_plans::headed("first", Matmul{}, Dtype::f32, {{8, 4}, {4, 16}}, {8, 16});
    const int w = draft.slot(Dtype::f32, {16, 12}), y = draft.output(Dtype::f32, {8, 12});
    Kernel second = draft.plan.kernels[0];
    second.domain = {8, 12};
    const Slot& hidden = draft.plan.slots[static_cast<std::size_t>(draft.outputs[0])];
    second.head->operands = {{draft.outputs[0], 0, hidden.shape, hidden.strides}, {w, 0, {16, 12}, {12, 1}}};
    second.loads[0].slot = draft.slot(Dtype::f32, {1, 12});
    second.stores = {draft.dense(y)};
    draft.plan.kernels.push_back(second);
    if (!biased)
      for (Kernel& kernel : draft.plan.kernels) {
        kernel.loads.clear();
        kernel.stages[0].body = {cuda_plans::head(), cuda_plans::number(0), cuda_plans::apply(Primitive::max, {1, 0})};
        kernel.stages[0].stores = {{2, 0}};
      }
    Plan plan = draft.plan;
    plan_memory(plan);
    const auto one_nan = [] {  // in the second row of the first operand
      return [count = 0](std::mt19937& random) mutable {
        return ++count == 6 ? std::numeric_limits<float>::quiet_NaN() : any_number(random);
      };
    };
    const std::vector<float> expected = run_on_cpu(plan, y, one_nan());
    cuda::split_relu(plan, 0);
    cuda::split_relu(plan, 2);
    ASSERT_EQ(plan.kernels.size(), 4u);
    for (std::size_t k : {0u, 2u}) {
      const auto problem = cuda::as_blas(plan, plan.kernels[k]);
      ASSERT_TRUE(problem);
      EXPECT_FALSE(problem->relu);
      EXPECT_EQ(problem->bias.has_value(), biased);
    }
    EXPECT_EQ(plan.kernels[1].waits_for, std::vector{0});
    EXPECT_EQ(plan.kernels[2].waits_for, std::vector{1});
    EXPECT_EQ(plan.kernels[3].waits_for, std::vector{2});
    const std::vector<float> found = run_on_cpu(plan, y, one_nan());
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
  EXPECT_FALSE(cuda::as_blas(plan, plan.kernels[0]));
  cuda::lower(plan);
  ASSERT_EQ(plan.kernels.size(), 2u);
  const auto problem = cuda::as_blas(plan, plan.kernels[0]);
  ASSERT_TRUE(problem);
  EXPECT_FALSE(problem->bias);
  EXPECT_FALSE(problem->relu);
  EXPECT_FALSE(plan.kernels[1].head);
}

TEST(CudaLowering, AnIntegerProductStaysOneKernel) {
  Plan plan = cuda_plans::headed("product", Matmul{}, Dtype::i32, {{8, 4}, {4, 16}}, {8, 16}).plan;
  cuda::lower(plan);
  ASSERT_EQ(plan.kernels.size(), 1u);
  EXPECT_FALSE(cuda::as_blas(plan, plan.kernels[0]));
  EXPECT_EQ(plan.slots.size(), 4u);  // and no slot is left over
}

}  // namespace
}  // namespace nixie
#endif
