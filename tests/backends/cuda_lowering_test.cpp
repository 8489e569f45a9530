// What the CUDA backend changes in a plan changes no result: lowered plans on the CPU against plans as they were.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <cmath>
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

std::vector<float> run_on_cpu(Plan plan, int output) {
  plan_memory(plan);
  const auto cpu = make_cpu_backend(1);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::mt19937 random(5);
  for (int slot : plan.externals) {
    const Slot& s = plan.slots[static_cast<std::size_t>(slot)];
    Array array(s.dtype, s.shape);
    for (float& x : array.data<float>()) x = std::uniform_real_distribution<float>(-1, 1)(random);
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
    Plan lowered = draft.plan;
    cuda::lower(lowered);
    changed += lowered.kernels.size() > draft.plan.kernels.size();
    const std::vector<float> expected = run_on_cpu(draft.plan, draft.outputs[0]),
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
