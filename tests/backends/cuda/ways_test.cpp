// The ways to compute a kernel: each has a name and an estimate, fits the chip, and is what its name says.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <set>

#include "nixie/backends/cuda/rewrite/lowering.h"
#include "nixie/core/passes/memory.h"
#include "nixie/tests/backends/cuda/hopper_cases.h"
#include "nixie/tests/compiler_log.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kSharedBytes = 227 << 10;  // that a block may have on sm_90

class CudaWays : public testing::TestWithParam<hopper_plans::Case> {
 protected:
  CudaWays() : plan_(GetParam().draft().plan) {
    lower(plan_, true);
    plan_memory(plan_);
  }
  Plan plan_;
};

TEST_P(CudaWays, FitTheChipAndAreWhatTheirNamesSay) {
  for (const Kernel& kernel : plan_.kernels) {
    const KernelCode first = generate(plan_, kernel, true);
    EXPECT_EQ(first.operation.empty(), first.ways.empty());
    std::set<std::string> sources, names;
    double last = 0;
    for (const Way& way : first.ways) {
      const KernelCode code = generate(plan_, kernel, true, way.name);
      EXPECT_NE(code.variant.find(way.name), std::string::npos) << code.variant;
      EXPECT_EQ(code.operation, first.operation);
      EXPECT_GE(way.estimate, last) << way.name;
      last = way.estimate;
      sources.insert(code.source);
      names.insert(way.name);
      for (const Launch& launch : code.launches) EXPECT_LE(launch.shared_bytes, kSharedBytes) << way.name;
    }
    EXPECT_EQ(sources.size(), first.ways.size());
    EXPECT_EQ(names.size(), first.ways.size());
    if (!first.ways.empty()) {
      EXPECT_EQ(generate(plan_, kernel, true, first.ways[0].name).source, first.source);
    }
    EXPECT_THROW(generate(plan_, kernel, true, "7x7"), Error);
  }
}

TEST_P(CudaWays, LongCompileWithoutSpills) {
  std::vector<std::string> sources, names;
  for (const Kernel& kernel : plan_.kernels)
    for (const Way& way : generate(plan_, kernel, true).ways) {
      sources.push_back(generate(plan_, kernel, true, way.name).source);
      names.push_back(kernel.label + " by " + way.name);
    }
  const std::vector<Cubin> cubins = compile_sources(sources, "sm_90a");
  // The widest portable products and filter gradients may keep a few words in memory, as in the nets.
  for (std::size_t i = 0; i < cubins.size(); ++i) EXPECT_EQ(complaints(cubins[i].log, 64), "") << names[i];
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaWays, testing::ValuesIn(hopper_plans::cases()),
                         [](const auto& info) { return info.param.name; });

TEST(CudaWaysOfALayer, AreToldInWords) {
  const Plan plan =
      hopper_plans::forward("layer", {.n = 128, .c = 64, .h = 27, .w = 27, .k = 192, .r = 5, .s = 5, .pad = {2, 2}},
                            hopper_plans::Forward::bias_relu)
          .plan;
  const KernelCode code = generate(plan, plan.kernels[0], true);
  EXPECT_EQ(code.operation, "f16 convolution of 128x64x27x27 by 192x5x5 pad 2x2, reads f32, writes f16");
  ASSERT_GT(code.ways.size(), 3u);
  EXPECT_EQ(code.variant, "conv_fprop_sm90 " + code.ways[0].name);
}

// The tiles that a filter gradient's schedule names.
std::set<std::pair<int, int>> tiles_in(const KernelCode& code) {
  const std::string before = "#define CONV_ITEMS ";
  const std::size_t items = std::stoul(code.source.substr(code.source.find(before) + before.size()));
  std::set<std::pair<int, int>> tiles;  // as the kernel reads them
  for (std::size_t i = 0; i < items; ++i) tiles.emplace(code.table[4 * i] & 0xffff, code.table[4 * i] >> 16);
  return tiles;
}

// A gradient [8, 49 c] whose columns are more tiles than a schedule can name, in some ways or in all.
TEST(CudaWaysOfALayer, WithVeryManyChannelsNameEveryTile) {
  using hopper_plans::Gradient;
  const auto plan_of = [](std::int64_t channels, Dtype dtype, Math math) {
    hopper_plans::Layer layer{.n = 1, .c = channels, .h = 7, .w = 7, .k = 8, .r = 7, .s = 7, .dtype = dtype};
    layer.math = math;
    Plan plan = hopper_plans::filter_grad("layer", layer, Gradient::stored).plan;
    lower(plan, true);
    return plan;
  };
  const Plan wide = plan_of(1 << 16, Dtype::f16, Math::ieee);
  int refused = 0;
  for (const char* name : {"64x96", "64x64", "128x64", "128x256", "64x192", "128x128"}) {
    const KernelCode first = generate(wide, wide.kernels.back(), true);
    refused += !has_way(first, name);
    if (!has_way(first, name)) continue;
    const std::set<std::pair<int, int>> tiles = tiles_in(generate(wide, wide.kernels.back(), true, name));
    const int n = std::atoi(std::string(name).substr(std::string(name).find('x') + 1).c_str());
    EXPECT_EQ(tiles.size(), static_cast<std::size_t>(((49 << 16) + n - 1) / n)) << name;
    EXPECT_EQ(*tiles.begin(), std::pair(0, 0)) << name;
  }
  EXPECT_EQ(refused, 3);  // 64 columns, and 96, of which no whole number is a slice of 64

  const auto variant = [](const Plan& plan) { return generate(plan, plan.kernels.back(), true).variant; };
  const std::string own = "conv_wgrad_sm90";
  EXPECT_TRUE(variant(wide).starts_with(own)) << variant(wide);
  const Plan wider = plan_of(1 << 18, Dtype::f16, Math::ieee);
  EXPECT_TRUE(variant(wider).starts_with("gemm_mma")) << variant(wider);
  // Three products have no tiles of 256 columns.
  const Plan one = plan_of(3 << 15, Dtype::f32, Math::tf32), three = plan_of(3 << 15, Dtype::f32, Math::fp32);
  EXPECT_TRUE(variant(one).starts_with(own)) << variant(one);
  EXPECT_TRUE(variant(three).starts_with("conv_ffma_sm90")) << variant(three);
}

}  // namespace
}  // namespace nixie::cuda
#endif
