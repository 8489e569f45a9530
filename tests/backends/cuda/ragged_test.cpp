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
      {"stem", "2x3x11x13 by 10x5x5 stride 2 pad 2"},
      {"one_channel", "2x1x9x11 by 3x7x7 pad 3"},
      {"nine_channels", "3x9x7x8 by 33x3x3 pad 1"},
      {"row_1x15", "2x7x9x31 by 5x1x15 stride 1x2 pad 0x7"},
      {"beyond_the_images", "1x11x5x6 by 3x4x4 pad 9"},
      {"six_channels_bf16", "2x6x8x9 by 40x3x3 pad 1 bf16"},
      // Pixels are: dilation, groups, one tap.
      {"dilated", "2x5x13x11 by 7x3x4 stride 2x3 pad 4x5 dilation 2"},
      {"groups_9_to_5", "1x27x6x9 by 15x3x2 pad 1x0 groups 3"},
      {"groups_5_to_3", "2x35x8x9 by 21x2x3 pad 1x0 groups 7"},
      {"groups_of_27_to_3", "2x54x9x8 by 6x3x3 pad 1 groups 2"},
      {"strided_groups", "2x25x9x8 by 45x3x3 stride 2 pad 1 groups 5"},
      {"pointwise", "2x17x7x7 by 63x1x1"},
      {"many_to_one", "3x47x7x7 by 1x1x1"},
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
    cuda_plans::expect_close(cuda_plans::run(*cuda, draft, 2, cuda_plans::eighths),
                             cuda_plans::run_in_doubles(draft, cuda_plans::eighths), cuda_plans::one_rounding,
                             draft.name);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaRagged, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nixie
#endif
