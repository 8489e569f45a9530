// The CUDA code generator without a GPU: what it writes compiles for every architecture, without spills.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <tuple>

#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/program.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/backends/cuda/head_plans.h"
#include "nixie/tests/backends/cuda/plans.h"
#include "nixie/tests/core/winograd_form.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie::cuda {
namespace {

// Without copies for a family: kernels as they are drafted.
KernelCode generate(const Plan& plan, const Kernel& kernel) {
  return cuda::generate(plan, kernel, chip_named("sm_80"));
}

void add_programs(CudaPrograms& programs, const std::vector<cuda_plans::Draft>& drafts) {
  for (const cuda_plans::Draft& draft : drafts)
    for (const Kernel& kernel : draft.plan.kernels) {
      const bool product = kernel.head && is_product(*kernel.head);  // a library computes some on a device
      const KernelCode code =
          product ? generate_product(draft.plan, kernel, chip_named("sm_80")) : generate(draft.plan, kernel);
      // Division of doubles is a call; what lives across it is spilled.
      const bool may_spill = code.source.find("f64") != std::string::npos;
      programs.add(code, form_of(code), draft.name, may_spill ? 1 << 20 : 0);
    }
}

CudaPrograms elementwise_and_reductions() {
  CudaPrograms programs;
  add_programs(programs, cuda_plans::elementwise_and_reductions());
  return programs;
}

CudaPrograms convolutions() {
  CudaPrograms programs;
  for (Dtype dtype : {Dtype::f32, Dtype::f16}) add_programs(programs, cuda_plans::all_convolutions(dtype));
  add_programs(programs, cuda_plans::in_tf32(cuda_plans::all_convolutions(Dtype::f32)));
  return programs;
}

CudaPrograms products_pooling_and_gather() {
  CudaPrograms programs;
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::i32}) add_programs(programs, cuda_plans::all_products(dtype));
  for (const Math math : {Math::fp32, Math::ieee}) add_programs(programs, cuda_plans::products_of_stored(math));
  for (Dtype dtype : {Dtype::f32, Dtype::f16}) add_programs(programs, cuda_plans::all_lookups(dtype));
  return programs;
}

CudaPrograms rows() {
  CudaPrograms programs;
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) add_programs(programs, cuda_plans::all_row_heads(dtype));
  return programs;
}

// Kernels of dozens of views and stores: a convolution written as transforms, and its filter gradient.
TEST(CudaCodegen, TransformsCompileForHopper) {
  CudaPrograms programs;
  CudaPlansBackend backend("sm_90a");
  const auto input = [](const Shape& shape) { return Tensor::make(Input{.name = "input"}, {}, shape, Dtype::f32); };
  const Tensor x = input({32, 64, 28, 28}), w = input({64, 64, 3, 3}), y = testing::winograd(x, w, 1);
  for (const Tensor& role : {y, gradients(sum(y * input(y.shape())), {w})[0]})
    for (PrecisionPolicy policy : {PrecisionPolicy::ieee, PrecisionPolicy::fp16})
      programs.add(make_plan(apply_precision(simplify({.outputs = {role}}), policy), backend), backend.chip(),
                   "winograd");
  programs.expect_compile("sm_90a");
}

// The arguments of a kernel of 250 conditional copies take six kilobytes.
TEST(CudaCodegen, AKernelOfHundredsOfArraysCompiles) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaPlansBackend backend(architecture);
    int count = 0;
    const auto input = [&] {
      return Tensor::make(Input{.name = fmt::format("input{}", count++)}, {}, {64, 100}, Dtype::f32);
    };
    const Tensor mask = input();
    std::vector<Tensor> chosen;
    for (int i = 0; i < 250; ++i) {
      const Tensor a = input(), b = input();
      chosen.push_back(where(mask, a, b));
    }
    const Plan plan = make_plan(simplify({.outputs = chosen}), backend);
    EXPECT_EQ(plan.kernels.size(), 1u);
    backend.compile(plan);
  }
}

// Plans have u64 as i64, so kernels name no u64.
TEST(CudaCodegen, EveryIntegerCompiles) {
  for (const Dtype dtype : {Dtype::i16, Dtype::i8, Dtype::u64, Dtype::u32, Dtype::u16, Dtype::u8}) {
    CudaPlansBackend backend("sm_90a");
    const auto input = [](const char* name, const Shape& shape, Dtype type) {
      return Tensor::make(Input{.name = name}, {}, shape, type);
    };
    const Tensor x = input("x", {40, 30}, dtype), y = input("y", {40, 30}, dtype), f = input("f", {40, 30}, Dtype::f32);
    const Tensor at = input("at", {7}, dtype);
    std::vector<Tensor> results{x * y - 300,
                                floor_divide(x, y),
                                x % y,
                                pow(x, y),
                                maximum(x, y),
                                x >> y,
                                x << y,
                                x < y,
                                sign(x),
                                cast(x, Dtype::f32),
                                cast(f, dtype),
                                cast(cast(x, Dtype::f64) * cast(f, Dtype::f64), dtype),
                                cast(x, Dtype::bf16),
                                wrapped(x, Dtype::i8),
                                sum(x),
                                max(x, {1})};
    if (dtype != Dtype::i8 && dtype != Dtype::u8)
      for (const Tensor& result : {argmax(x, {0}), sort(x, 1), cumsum(x, 0), take(x, at), scatter_max(x, at, 7)})
        results.push_back(result);
    const Plan plan = make_plan(simplify({.outputs = results}), backend);
    for (const Slot& slot : plan.slots) EXPECT_NE(slot.dtype, Dtype::u64) << slot.name;
    backend.compile(plan);
  }
}

// Strides, pads and dilations may be all that an int holds.
TEST(CudaCodegen, PoolingsWithTheLargestDilationsCompile) {
  CudaPlansBackend backend("sm_90a");
  for (const PoolOptions& options :
       {PoolOptions{.window = {3}, .stride = {1}, .pad = {2147483647}, .dilation = {2147483647}},
        PoolOptions{.window = {3}, .stride = {2147483647}, .pad = {1}}, PoolOptions{.window = {2}, .dilation = {2}}}) {
    const Tensor x = Tensor::make(Input{.name = "x"}, {}, {1, 1, 5}, Dtype::f64);
    std::vector<Tensor> roles;
    for (const Tensor& y : {max_pool(x, options), average_pool(x, options), l2_pool(x, options)}) {
      roles.push_back(y);
      roles.push_back(gradients(sum(exp(y)), {x})[0]);
    }
    backend.compile(make_plan(simplify({.outputs = roles}), backend));
  }
}

TEST(CudaCodegen, EachFormCompilesForHopper) {
  elementwise_and_reductions().one_of_each_form().expect_compile("sm_90a");
  convolutions().one_of_each_form().expect_compile("sm_90a");
  products_pooling_and_gather().one_of_each_form().expect_compile("sm_90a");
  rows().one_of_each_form().expect_compile("sm_90a");
}

class CudaCodegen : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaCodegen, ElementwiseAndReductionsCompile) { elementwise_and_reductions().expect_compile(GetParam()); }
TEST_P(CudaCodegen, ConvolutionsCompile) { convolutions().expect_compile(GetParam()); }
TEST_P(CudaCodegen, ProductsPoolingAndGatherCompile) { products_pooling_and_gather().expect_compile(GetParam()); }
TEST_P(CudaCodegen, RowsCompile) { rows().expect_compile(GetParam()); }

INSTANTIATE_TEST_SUITE_P(LongAll, CudaCodegen,
                         ::testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"));

TEST(CudaCodegenText, WhatTheCompilerComplainsOfIsSeen) {
  const std::string waits = products_of_columns({8}) + R"(#include "ptx.cuh"
extern "C" __global__ void sums_touched_too_early(float* out, unsigned long long a) {
  float sum[4] = {};
  for (int i = 0; i < 8; ++i) {
    wgmma_begin();
    wgmma<0, 0>(sum, a + i, a, true);
    wgmma_commit();
    sum[0] += 1;
    wgmma_wait<0>();
  }
  for (int i = 0; i < 4; ++i) out[i * 128 + threadIdx.x] = sum[i];
})";
  const char* const kSpills =
      R"(extern "C" __global__ void __launch_bounds__(1024) too_many(float* out, const float* in) {
  float sum[128];
  for (int i = 0; i < 128; ++i) sum[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 128; ++i) out[i * 1024 + threadIdx.x] = sum[i] * sum[127 - i];
})";
  const std::vector<Cubin> cubins = compile_sources(std::vector<std::string>{waits, kSpills}, "sm_90a");
  EXPECT_NE(complaints(cubins[0].log).find("warpgroup.wait is injected"), std::string::npos) << cubins[0].log;
  EXPECT_NE(complaints(cubins[0].log).find("serialized"), std::string::npos) << cubins[0].log;
  EXPECT_NE(complaints(cubins[1].log).find("spilled"), std::string::npos) << cubins[1].log;
  EXPECT_EQ(complaints(cubins[1].log, 1 << 20), "");
}

std::string source_of(const cuda_plans::Draft& draft) { return generate(draft.plan, draft.plan.kernels[0]).source; }

// Poolings of images whose channels are contiguous in eights; others look elements up one by one.
TEST(CudaCodegenText, AveragePoolingsTakeEightChannels) {
  int taken = 0;
  for (const cuda_plans::Draft& draft : cuda_plans::all_lookups(Dtype::f16))
    for (const Kernel& kernel : draft.plan.kernels) {
      const auto* pool = std::get_if<Pool>(&kernel.head->op);
      if (!pool || pool->kind != PoolKind::average) continue;
      const Operand& images = kernel.head->operands[0];
      const bool fits =
          kernel.domain.rank() == 4 && images.shape[1] % 8 == 0 && images.strides[1] == 1 && pool->dilation.empty();
      EXPECT_EQ(generate(draft.plan, kernel).variant, fits ? "pool_average" : "gather") << draft.name;
      taken += fits;
    }
  EXPECT_EQ(taken, 2 * 2 * 2);  // two layers, output and gradient, padding counted or not
}

TEST(CudaCodegenText, ContiguousAccessesAre16Bytes) {
  EXPECT_NE(source_of(cuda_plans::bias_relu(Dtype::f32, {96, 64})).find("read<4>(load0"), std::string::npos);
  EXPECT_NE(source_of(cuda_plans::bias_relu(Dtype::f16, {96, 64})).find("read<8>(load0"), std::string::npos);
  EXPECT_NE(source_of(cuda_plans::bias_relu(Dtype::f16, {96, 64})).find("Vector<f16, 8> out0"), std::string::npos);
  EXPECT_EQ(source_of(cuda_plans::bias_relu(Dtype::f32, {7, 5})).find("Vector"), std::string::npos);
}

TEST(CudaCodegenText, LargeCastsTo8BitsTakeSixteen) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaPlansBackend backend(architecture);
    CudaPrograms programs;
    for (const auto& [shape, from, lanes] : {std::tuple(Shape{2048, 2048}, Dtype::bf16, 16),
                                             {Shape{2048, 2048}, Dtype::f32, 8},
                                             {Shape{2048, 2056}, Dtype::f16, 16},
                                             {Shape{2051, 2059}, Dtype::f16, 1},
                                             {Shape{1024, 2048}, Dtype::f16, 8}})
      for (const Dtype to : {Dtype::f8e4m3, Dtype::f8e5m2}) {
        const Tensor x = Tensor::make(Input{.name = "x"}, {}, shape, from);
        const Plan plan = make_plan({.outputs = {cast(x, to)}}, backend);
        const KernelCode code = generate(plan, plan.groups[0], backend.chip());
        EXPECT_EQ(code.launches[0].blocks, ceil_div(shape.size() / lanes, 256)) << shape << " " << from;
        programs.add(code, form_of(code), "cast");
      }
    programs.expect_compile(architecture);
  }
}

TEST(CudaCodegenText, WhatAKernelWritesIsNotReadThroughTheReadOnlyPath) {
  const std::string source = source_of(cuda_plans::sgd(1000));
  EXPECT_NE(source.find("read_written<4>(load0"), std::string::npos);
  EXPECT_NE(source.find("read_written<4>(load1"), std::string::npos);
  EXPECT_NE(source.find(" read<4>(load2"), std::string::npos);
}

TEST(CudaCodegenText, EveryPieceOfAnUpdateHasAThreadOfItsOwn) {
  const auto draft = cuda_plans::sgd(1 << 26);
  const Launch launch = generate(draft.plan, draft.plan.kernels[0]).launches.at(0);
  EXPECT_EQ(launch.blocks * launch.threads * 4, 1 << 26);
}

TEST(CudaCodegenText, ChannelsLastStatisticsGiveThreadsChannels) {
  const auto draft = cuda_plans::normalise(Dtype::f16, {64, 24, 30, 30}, {0, 2, 3}, true);
  EXPECT_NE(source_of(draft).find("kKeptFirst = true"), std::string::npos);
  const KernelCode code = generate(draft.plan, draft.plan.kernels[0]);
  EXPECT_EQ(code.launches.size(), 2u);  // statistics, then the normalised values
  EXPECT_GT(code.scratch_bytes, 0);
}

// Reductions of all of an array with numbers for each column: a thread keeps its columns and loads these once, counts
// without converting floats, and adds what is rarely not 0 in a branch of its own.
TEST(CudaCodegenText, ReductionsToOneValueTakeFewInstructions) {
  const auto input = [](const char* name, const Shape& shape, Dtype dtype) {
    return Tensor::make(Input{.name = name}, {}, shape, dtype);
  };
  const struct {
    std::int64_t columns;
    bool keeps;
  } rows[] = {{64, true}, {2048, true}, {4096, false}, {24, false}};
  for (const auto& row : rows) {
    const Tensor y = input("x", {4096, row.columns}, Dtype::f16) * input("scale", {1, row.columns}, Dtype::f32);
    const Tensor rare = where(abs(y) < 6e4, 0, where(is_nan(y), 1, 0));
    const auto all = all_axes(y.shape());
    CudaPlansBackend backend("sm_90a");
    const Plan plan = make_plan(
        simplify({.outputs = {y, sum(cast(y == 0, Dtype::i32), all), sum(cast(rare, Dtype::i32), all)}}), backend);
    ASSERT_EQ(plan.groups.size(), 1U);
    const std::string text = cuda::generate(plan, plan.groups[0], backend.chip()).source;
    EXPECT_EQ(text.find("fixed.load") != std::string::npos, row.keeps) << row.columns << text;
    const std::size_t branch = text.find("if (any0_");
    ASSERT_NE(branch, std::string::npos) << text;
    EXPECT_NE(text.substr(0, branch).find("m0.add("), std::string::npos) << text;
    EXPECT_EQ(text.substr(0, branch).find("m1.add("), std::string::npos) << text;
    EXPECT_NE(text.substr(0, branch).find("= static_cast<i32>("), std::string::npos) << text;
  }
}

// Blocks that share channels go on together where all of them run at a time.
TEST(CudaCodegenText, BlocksThatFitTheDeviceMeet) {
  const auto draft = cuda_plans::normalise(Dtype::f16, {64, 24, 30, 30}, {0, 2, 3}, true);
  Chip chip = chip_named("sm_90a");
  const KernelCode code = cuda::generate(draft.plan, draft.plan.kernels[0], chip);
  ASSERT_EQ(code.launches.size(), 1u);
  EXPECT_TRUE(code.launches[0].meets);
  EXPECT_LE(code.launches[0].blocks, 2 * chip.sms);
  chip.sms = static_cast<int>(code.launches[0].blocks - 1) / 2;
  for (const Launch& launch : cuda::generate(draft.plan, draft.plan.kernels[0], chip).launches)
    EXPECT_FALSE(launch.meets);
}

// Where channels and images alone fill the device, the mean over a few pixels is a thread's own work.
TEST(CudaCodegenText, FewPixelsOfManyChannelsTakeFewThreads) {
  EXPECT_NE(source_of(cuda_plans::normalise(Dtype::f16, {128, 1024, 3, 3}, {2, 3}, true)).find("kReducedThreads = 8;"),
            std::string::npos);
  EXPECT_NE(source_of(cuda_plans::normalise(Dtype::f16, {2, 1024, 3, 3}, {2, 3}, true)).find("kReducedThreads = 16;"),
            std::string::npos);
}

TEST(CudaCodegenText, TheTextDoesNotDependOnWhereSlotsLie) {
  cuda_plans::Draft a = cuda_plans::softmax(Dtype::f32, 64, 1000), b = a;
  for (Slot& slot : a.plan.slots) slot.external = false, slot.offset = 4096;
  a.plan.slots[1].offset = 4096 * 1024;
  EXPECT_EQ(source_of(a), source_of(b));
}

TEST(CudaCodegenText, IndicesGrowTo64BitsOnlyWhereTheyMust) {
  EXPECT_NE(source_of(cuda_plans::sgd(1 << 20)).find("using Index = int;"), std::string::npos);
  EXPECT_NE(source_of(cuda_plans::sgd(std::int64_t{1} << 31)).find("using Index = long long;"), std::string::npos);
}

TEST(CudaCodegenText, AnEmptyDomainLaunchesNothing) {
  const auto draft = cuda_plans::sgd(0);
  EXPECT_TRUE(generate(draft.plan, draft.plan.kernels[0]).launches.empty());
}

}  // namespace
}  // namespace nixie::cuda
#endif
