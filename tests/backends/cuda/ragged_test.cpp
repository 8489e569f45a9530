// Portable convolutions of halves whose rows begin at any address: programs read them in pieces and compile; with a
// device, results against doubles.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/passes/memory.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/compiler_log.h"

namespace nixie {
namespace {

using cuda_plans::Draft;
using hopper_plans::Forward;
using hopper_plans::Gradient;
using hopper_plans::Layer;

struct Case {
  std::string name;
  Layer layer;
};

std::vector<Case> cases() {
  return {
      // Rows of the window are runs, cut at the images' edges.
      {"stem", Layer{.n = 2, .c = 3, .h = 11, .w = 13, .k = 10, .r = 5, .s = 5, .stride = {2, 2}, .pad = {2, 2}}},
      {"one_channel", Layer{.n = 2, .c = 1, .h = 9, .w = 11, .k = 3, .r = 7, .s = 7, .pad = {3, 3}}},
      {"nine_channels", Layer{.n = 3, .c = 9, .h = 7, .w = 8, .k = 33, .r = 3, .s = 3, .pad = {1, 1}}},
      {"row_1x15", Layer{.n = 2, .c = 7, .h = 9, .w = 31, .k = 5, .r = 1, .s = 15, .stride = {1, 2}, .pad = {0, 7}}},
      {"beyond_the_images", Layer{.n = 1, .c = 11, .h = 5, .w = 6, .k = 3, .r = 4, .s = 4, .pad = {9, 9}}},
      {"six_channels_bf16",
       Layer{.n = 2, .c = 6, .h = 8, .w = 9, .k = 40, .r = 3, .s = 3, .pad = {1, 1}, .dtype = Dtype::bf16}},
      // Pixels are: dilation, groups, one tap.
      {"dilated", Layer{.n = 2,
                        .c = 5,
                        .h = 13,
                        .w = 11,
                        .k = 7,
                        .r = 3,
                        .s = 4,
                        .stride = {2, 3},
                        .pad = {4, 5},
                        .dilation = {2, 2}}},
      {"groups_9_to_5", Layer{.n = 1, .c = 27, .h = 6, .w = 9, .k = 15, .r = 3, .s = 2, .pad = {1, 0}, .groups = 3}},
      {"groups_5_to_3", Layer{.n = 2, .c = 35, .h = 8, .w = 9, .k = 21, .r = 2, .s = 3, .pad = {1, 0}, .groups = 7}},
      {"groups_of_27_to_3", Layer{.n = 2, .c = 54, .h = 9, .w = 8, .k = 6, .r = 3, .s = 3, .pad = {1, 1}, .groups = 2}},
      {"strided_groups",
       Layer{.n = 2, .c = 25, .h = 9, .w = 8, .k = 45, .r = 3, .s = 3, .stride = {2, 2}, .pad = {1, 1}, .groups = 5}},
      {"pointwise", Layer{.n = 2, .c = 17, .h = 7, .w = 7, .k = 63, .r = 1, .s = 1}},
      {"many_to_one", Layer{.n = 3, .c = 47, .h = 7, .w = 7, .k = 1, .r = 1, .s = 1}},
  };
}

std::vector<Draft> drafts(const Case& of) {
  return {hopper_plans::forward(of.name + "_forward", of.layer, Forward::residual),
          hopper_plans::forward(of.name + "_two_stores", of.layer, Forward::two_stores),
          hopper_plans::input_grad(of.name + "_input_grad", of.layer, true),
          hopper_plans::filter_grad(of.name + "_filter_grad", of.layer, Gradient::updated)};
}

class CudaRagged : public testing::TestWithParam<Case> {};

TEST_P(CudaRagged, CompilesWithPieces) {
  const cuda::Chip hopper = cuda::chip_named("sm_90a");
  std::vector<std::string> sources;
  for (const Draft& draft : drafts(GetParam())) {
    const cuda::KernelCode code = cuda::generate(draft.plan, draft.plan.kernels.front(), hopper);
    EXPECT_TRUE(code.variant.starts_with("gemm_sm80")) << draft.name << ": " << code.variant;
    const bool in_pieces = code.source.find("kRaggedA = true") != std::string::npos ||
                           code.source.find("kRaggedB = true") != std::string::npos;
    // No run of one filter is long enough.
    EXPECT_TRUE(in_pieces || draft.name == "many_to_one_input_grad") << draft.name;
    sources.push_back(code.source);
  }
  for (const cuda::Cubin& cubin : cuda::compile_sources(sources, "sm_90a"))
    EXPECT_EQ(cuda::complaints(cubin.log, 0), "") << GetParam().name;
}

TEST_P(CudaRagged, AgreesWithDoubles) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  for (const Draft& draft : drafts(GetParam())) {
    const std::vector<Array> expected =
        cuda_plans::run(*make_cpu_backend(), cuda_plans::in_doubles(draft), 1, cuda_plans::eighths);
    const std::vector<Array> found = cuda_plans::run(*cuda, draft, 2, cuda_plans::eighths);
    cuda_plans::expect_rounded(found, expected, draft.name);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaRagged, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nixie
#endif
