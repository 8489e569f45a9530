// The algorithms of a group: each has a name and an estimate, fits the chip, and is what its name says.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/memory.h"
#include "nixie/tests/backends/cuda/head_plans.h"
#include "nixie/tests/backends/cuda/hopper_cases.h"
#include "nixie/tests/backends/cuda/splitting.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie::cuda {
namespace {

const Chip& hopper() {
  static const Chip chip = chip_named("sm_90a");
  return chip;
}

// Stages of a forward pass hold whole slices of channels, and no more zeros than they must.
TEST(CudaForwardLayer, StagesHoldFewZeros) {
  struct Row {
    int channels, window;
    std::int64_t stages;
    int terms;
  };
  for (const Row& row : {Row{16, 1, 1, 16}, Row{32, 1, 1, 32}, Row{144, 1, 3, 64}, Row{80, 1, 2, 64}, Row{16, 3, 3, 48},
                         Row{32, 3, 5, 64}, Row{24, 1, 1, 64}, Row{64, 1, 1, 64}, Row{192, 3, 27, 64}}) {
    ConvProblem conv;
    conv.channels = row.channels, conv.filters = 64, conv.images = 1;
    conv.height = conv.width = conv.p = conv.q = 14;
    conv.r = conv.s = row.window;
    const ForwardLayer layer = forward_layer(conv);
    EXPECT_EQ(layer.stages, row.stages) << row.channels;
    EXPECT_EQ(layer.stage_terms, row.terms) << row.channels;
    EXPECT_GE(layer.stages * layer.stage_terms, row.channels * row.window * row.window);
  }
}

// Tiles of layers whose filters do not fill those of 64 and 128 columns equally.
TEST(CudaForwardLayer, FiltersFillTiles) {
  struct Row {
    int images, channels, size, filters;
    ConvRole role;
    std::string fastest;
  };
  for (const Row& row : {Row{64, 2048, 7, 512, ConvRole::output, "128x104"},  // 125 tiles for 132 SMs
                         Row{64, 784, 14, 784, ConvRole::output, "128x200"},  // 4 columns, not 3 and a quarter
                         Row{64, 2048, 7, 512, ConvRole::input_grad, "64x256 in turn"},  // turned: boxes of 64
                         Row{64, 144, 56, 24, ConvRole::output, "128x24 in turn"}}) {
    ConvProblem conv;
    conv.role = row.role;
    conv.images = row.images, conv.channels = row.channels, conv.filters = row.filters;
    conv.height = conv.width = conv.p = conv.q = row.size;
    conv.r = conv.s = 1;
    const std::vector<Tile> tiles = forward_tiles(conv, chip_named("H200"));
    EXPECT_EQ(tiles.front().name(), row.fastest) << row.channels;
    std::set<std::string> names;
    for (const Tile& tile : tiles) {
      EXPECT_TRUE(names.insert(tile.name()).second) << tile.name();
      EXPECT_TRUE(tile.n % 8 == 0 && tile.n <= 256 && (!tile.paired || tile.n % 16 == 0)) << tile.name();
    }
  }
}

// Tiles by multiply-adds have no estimate of their own, but a product has one.
TEST(CudaPrices, OfPortableProductsAreTheirEstimates) {
  cuda_plans::Draft draft = cuda_plans::convolutions(Dtype::f32, {16, 8, 28, 28}, {8, 8, 3, 3},
                                                     {.stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}}, true)[0];
  const Chip chip = chip_named("sm_80");
  lower(draft.plan, chip);
  for (const Group& group : draft.plan.groups) {
    const Kernel& kernel = draft.plan.kernels[at(group.members[0])];
    if (!kernel.head) continue;
    EXPECT_EQ(group.implementation->name(), "gemm");
    EXPECT_GE(price_of(draft.plan, group, chip).seconds, product_estimate(draft.plan, kernel, chip).seconds);
  }
}

TEST(CudaPrices, OfSignalsImagesAndVolumesCountWhatIsRead) {
  for (const char* name : {"sm_80", "H200"})
    for (const Dtype dtype : {Dtype::f32, Dtype::f16})
      for (cuda_plans::Draft& draft : cuda_plans::all_convolutions(dtype)) {
        const Chip chip = chip_named(name);
        lower(draft.plan, chip);
        for (const Group& group : draft.plan.groups) {
          const double seconds = price_of(draft.plan, group, chip).seconds;
          EXPECT_TRUE(seconds >= Chip::kLaunch && seconds < 1e-3) << label_of(draft.plan, group) << ": " << seconds;
        }
      }
}

// `benchmark sweep --list apps/benchmark/nets.layers --precision fp16` measured these times on an H200.
TEST(CudaPrices, OfLayersAreAboutWhatTheyTake) {
  struct Row {
    Shape x, filters;
    int stride, groups;
    double microseconds;
  };
  const Chip chip = chip_named("H200");
  for (const auto& [x, filters, stride, groups, microseconds] : {Row{{32, 96, 56, 56}, {96, 1, 7, 7}, 1, 96, 62.2},
                                                                 {{16, 960, 24, 24}, {960, 1, 5, 5}, 1, 960, 27.6},
                                                                 {{64, 144, 56, 56}, {144, 1, 3, 3}, 1, 144, 38.7},
                                                                 {{64, 256, 56, 56}, {512, 256, 1, 1}, 2, 1, 27.2},
                                                                 {{64, 1024, 14, 14}, {256, 1024, 1, 1}, 1, 1, 11.8},
                                                                 {{64, 256, 14, 14}, {256, 256, 3, 3}, 1, 1, 21.5}}) {
    const int pad = static_cast<int>(filters[2] / 2);
    cuda_plans::Draft draft = cuda_plans::convolutions(
        Dtype::f16, x, filters, {.stride = {stride, stride}, .pad = {pad, pad}, .dilation = {1, 1}, .groups = groups},
        true)[0];
    lower(draft.plan, chip);
    double seconds = 0;
    for (const Group& group : draft.plan.groups) seconds += price_of(draft.plan, group, chip).seconds;
    EXPECT_NEAR(std::log(1e6 * seconds / microseconds), 0, std::log(1.4))
        << to_string(x) << " by " << to_string(filters);
  }
}

class CudaAlgorithms : public testing::TestWithParam<hopper_plans::Case> {
 protected:
  CudaAlgorithms() : plan_(GetParam().draft().plan) {
    lower(plan_, hopper());
    plan_memory(plan_);
  }
  Plan plan_;
};

TEST_P(CudaAlgorithms, FitTheChipAndAreWhatTheirNamesSay) {
  for (const Group& group : plan_.groups) {
    if (blas_problem(group)) continue;
    const KernelCode first = generate(plan_, group, hopper());
    EXPECT_EQ(first.operation.empty(), first.algorithms.empty());
    std::set<std::string> sources, names;
    double last = 0;
    for (const Algorithm& algorithm : first.algorithms) {
      const KernelCode code = generate(plan_, group, hopper(), algorithm.name);
      EXPECT_NE(code.variant.find(algorithm.name), std::string::npos) << code.variant;
      EXPECT_EQ(code.operation, first.operation);
      EXPECT_GE(algorithm.estimate, last) << algorithm.name;
      last = algorithm.estimate;
      sources.insert(code.source);
      names.insert(algorithm.name);
      for (const Launch& launch : code.launches)
        EXPECT_LE(launch.shared_bytes, hopper().block_shared_bytes) << algorithm.name;
    }
    EXPECT_EQ(sources.size(), first.algorithms.size());
    EXPECT_EQ(names.size(), first.algorithms.size());
    if (!first.algorithms.empty()) {
      EXPECT_EQ(generate(plan_, group, hopper(), first.algorithms[0].name).source, first.source);
    }
    EXPECT_THROW(generate(plan_, group, hopper(), "7x7"), Error);
  }
}

TEST_P(CudaAlgorithms, LongCompileWithoutSpills) {
  constexpr int kSpilledBytes = 64;  // of the widest portable products and filter gradients, as in the nets
  CudaPrograms programs;
  for (const Group& group : plan_.groups) {
    if (blas_problem(group)) continue;
    for (const Algorithm& algorithm : generate(plan_, group, hopper()).algorithms)
      programs.add(generate(plan_, group, hopper(), algorithm.name), "",
                   label_of(plan_, group) + " by " + algorithm.name, kSpilledBytes);
  }
  if (programs.size() > 0) programs.expect_compile("sm_90a");
}

// No block of a portable product adds more terms than tensor cores may in one accumulator, in any tile.
TEST(CudaAlgorithms, CutLongSumsOfTensorCores) {
  const hopper_plans::Layer layer{"256x1024x80x81 by 1024x1x1 groups 16"};
  const auto draft = hopper_plans::filter_grad("long", layer, hopper_plans::Gradient::stored);
  for (const Algorithm& algorithm : product_algorithms(draft.plan, draft.plan.kernels[0], hopper())) {
    const std::string text = generate_product(draft.plan, draft.plan.kernels[0], hopper(), algorithm.name).source;
    const std::int64_t splits = std::stoll(text.substr(text.find("kSplits = ") + 10));
    EXPECT_LE(256 * 80 * 81 / splits, kMostTensorTerms) << algorithm.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaAlgorithms, testing::ValuesIn(hopper_plans::cases()),
                         [](const auto& info) { return info.param.name; });

TEST(CudaAlgorithmsOfALayer, AreToldInWords) {
  Plan plan = hopper_plans::forward("layer", "128x64x27x27 by 192x5x5 pad 2", hopper_plans::Forward::bias_relu).plan;
  lower(plan, hopper());
  const KernelCode code = generate(plan, plan.groups[0], hopper());
  EXPECT_EQ(code.operation, "f16 convolution of 128x64x27x27 by 192x5x5 pad 2x2, reads f32, writes f16");
  ASSERT_GT(code.algorithms.size(), 3u);
  EXPECT_EQ(code.variant, "conv_fprop_sm90 " + code.algorithms[0].name);
}

// Only the tiles left over after whole waves share their sums, which go to memory and back.
TEST(CudaAlgorithmsOfALayer, ByMultiplyAddsShareTheSumsOfTheLastTilesAlone) {
  const hopper_plans::Layer layer{"8x8x300x400 by 16x3x3 pad 1 f32"};
  Plan plan = hopper_plans::forward("layer", layer, hopper_plans::Forward::bias_relu).plan;
  lower(plan, hopper());
  const Group& group = plan.groups.back();
  for (const Algorithm& algorithm : generate(plan, group, hopper()).algorithms) {
    const KernelCode code = generate(plan, group, hopper(), algorithm.name);
    ASSERT_TRUE(code.variant.starts_with("conv_ffma_sm90")) << code.variant;
    const std::int64_t rows = std::atoi(algorithm.name.c_str()), tiles = (8 * 300 * 400 + rows - 1) / rows;
    const std::int64_t shared = code.launches.size() > 1 ? code.launches[1].blocks : 0;
    EXPECT_LE(shared, tiles % hopper().sms) << algorithm.name;
  }
}

// Where there are about half as many tiles as SMs, two blocks share the sums of one and no launch adds parts.
TEST(CudaAlgorithmsOfALayer, AddTheSumsOfPairsOfBlocksInOneLaunch) {
  using hopper_plans::Gradient;
  const struct {
    std::int64_t n, c, size, k;
    std::size_t launches;
    Gradient what = Gradient::half;
  } kCases[] = {{64, 2048, 7, 512, 1},   {64, 512, 7, 2048, 1},  {32, 1024, 10, 1536, 1}, {16, 1088, 14, 800, 1},
                {16, 1024, 14, 2048, 1}, {64, 256, 14, 1024, 2}, {4, 64, 200, 256, 2}};
  for (const auto& c : kCases) {
    Plan plan =
        hopper_plans::filter_grad("layer", fmt::format("{0}x{1}x{2}x{2} by {3}x1x1", c.n, c.c, c.size, c.k), c.what)
            .plan;
    lower(plan, hopper());
    const KernelCode code = generate(plan, plan.groups[0], hopper());
    EXPECT_EQ(code.launches.size(), c.launches) << code.operation << " by " << code.variant;
  }
}

// The tiles that a filter gradient's schedule names.
std::set<std::pair<int, int>> tiles_in(const KernelCode& code) {
  const std::string before = "#define CONV_ITEMS ";
  const std::size_t items = std::stoul(code.source.substr(code.source.find(before) + before.size()));
  std::set<std::pair<int, int>> tiles;  // as the kernel reads them
  for (std::size_t i = 0; i < items; ++i) tiles.emplace(code.table[4 * i] & 0xffff, code.table[4 * i] >> 16);
  return tiles;
}

// A gradient [40, 49 c] whose columns are more tiles than a schedule can name, by some algorithms or by all.
TEST(CudaAlgorithmsOfALayer, WithVeryManyChannelsNameEveryTile) {
  using hopper_plans::Gradient;
  const auto draft_of = [](std::int64_t channels, Dtype dtype, Math math) {
    hopper_plans::Layer layer(fmt::format("1x{}x7x7 by 40x7x7 {}", channels, dtype));
    layer.math = math;
    return hopper_plans::filter_grad("layer", layer, Gradient::stored).plan;
  };
  const auto plan_of = [&](std::int64_t channels, Dtype dtype, Math math, const Chip& chip = hopper()) {
    Plan plan = draft_of(channels, dtype, math);
    lower(plan, chip);
    return plan;
  };
  const Plan wide = plan_of(1 << 16, Dtype::f16, Math::ieee);
  int refused = 0;
  for (const char* name : {"64x96", "64x64", "128x64", "128x256", "64x192", "128x128"}) {
    const KernelCode first = generate(wide, wide.groups.back(), hopper());
    refused += !has_algorithm(first, name);
    if (!has_algorithm(first, name)) continue;
    const std::set<std::pair<int, int>> tiles = tiles_in(generate(wide, wide.groups.back(), hopper(), name));
    const int n = std::atoi(std::string(name).substr(std::string(name).find('x') + 1).c_str());
    EXPECT_EQ(tiles.size(), static_cast<std::size_t>(((49 << 16) + n - 1) / n)) << name;
    EXPECT_EQ(*tiles.begin(), std::pair(0, 0)) << name;
  }
  EXPECT_EQ(refused, 3);  // 64 columns, and 96, of which no whole number is a slice of 64

  const auto variant = [](const Plan& plan) { return generate(plan, plan.groups.back(), hopper()).variant; };
  const std::string own = "conv_wgrad_";
  EXPECT_TRUE(variant(wide).starts_with(own)) << variant(wide);
  const Plan wider = draft_of(1 << 18, Dtype::f16, Math::ieee);
  EXPECT_EQ(take(wider, wider.kernels.front(), hopper())->name(), "gemm");
  // Three products have no tiles of 256 columns.
  const Plan one = plan_of(3 << 15, Dtype::f32, Math::tf32,
                           splitting(hopper(), draft_of(3 << 15, Dtype::f32, Math::tf32))),
             three = plan_of(3 << 15, Dtype::f32, Math::fp32);
  EXPECT_TRUE(variant(one).starts_with(own)) << variant(one);
  EXPECT_TRUE(variant(three).starts_with("conv_ffma_sm90")) << variant(three);
}

}  // namespace
}  // namespace nixie::cuda
#endif
