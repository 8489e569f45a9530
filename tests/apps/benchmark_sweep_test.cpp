// Random layers of the sweep, and what its rows say together.
#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/subjects/contractions.h"
#include "nixie/apps/benchmark/subjects/layer_work.h"
#include "nixie/apps/benchmark/subjects/sweep_layers.h"
#include "nixie/backends/registry.h"
#include "nixie/tests/apps/benchmark_program.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie::benchmark {
namespace {

TEST(BenchmarkSweep, DrawsLayersOfEveryKindWithinItsLimits) {
  const SweepLimits limits;
  const std::vector<SweepLayer> layers = draw_sweep(300, 1, limits);
  std::set<std::string> kinds;
  std::set<std::int64_t> strides, dilations, windows;
  int rectangular = 0, odd_channels = 0, odd_batches = 0;
  for (const SweepLayer& layer : layers) {
    EXPECT_LE(layer.flop(), limits.most_flop) << layer.text();
    EXPECT_LE(layer.elements(), limits.most_elements) << layer.text();
    EXPECT_EQ(flop(layer.node()), layer.flop()) << layer.text();
    EXPECT_EQ(layer.channels % layer.groups + layer.out % layer.groups, 0) << layer.text();
    kinds.insert(layer.kind() + std::to_string(static_cast<int>(layer.role)));
    strides.insert(layer.stride[0]);
    dilations.insert(layer.dilation[0]);
    windows.insert(layer.window[0]);
    rectangular += layer.window[0] != layer.window[1];
    odd_channels += layer.channels % 8 != 0;
    odd_batches += layer.batch % 2;
  }
  EXPECT_EQ(kinds.size(), 9u);
  EXPECT_EQ(strides, (std::set<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(dilations, (std::set<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(windows.size(), 15u);
  for (const int count : {rectangular, odd_channels, odd_batches}) EXPECT_GT(count, 50);
  EXPECT_EQ(draw_sweep(5, 1, limits)[4].text(), layers[4].text());
  EXPECT_NE(draw_sweep(5, 2, limits)[4].text(), layers[4].text());
}

TEST(BenchmarkSweep, ReadsLayersOfAList) {
  struct Row {
    const char* line;
    const char* found;  ///< role kind shape of the result, of each contraction; or a part of the error
  };
  const Row rows[] = {
      {"net 3 output 2x8x9x9 to 16", "output 1x1 [2, 16, 9, 9]"},
      {"net 3 all 2x8x9x7 to 6, window 3x1, stride 2, pad 1x0, groups 2  # a comment",
       "output grouped [2, 6, 5, 4]; input_grad grouped [2, 8, 9, 7]; filter_grad grouped [6, 4, 3, 1]"},
      {"net 1 output 2x8x30 to 8, window 7, pad 3, groups 8", "output depthwise [2, 8, 30]"},
      {"net 1 filter_grad 1x4x3x5x5 to 4, window 3x1x1, dilation 1", "filter_grad window [4, 4, 3, 1, 1]"},
      {"net 1 all 12x20 to 24", "output linear [12, 24]; input_grad linear [12, 20]; filter_grad linear [24, 20]"},
      {"net 2 product 3x12x20 by 3x20x8", "product product [3, 12, 8]"},
      {"# nothing", "there is no layer in it"},
      {"net 3 output", ":1: \"net 3 output\" is not SOURCE COUNT ROLE LAYER"},
      {"net x output 2x8 to 4", "the count \"x\""},
      {"net 0 output 2x8 to 4", "the count \"0\""},
      {"net 1 outputs 2x8 to 4", "\"outputs\" is no role"},
      {"net 1 output 2x8 by 8x4", "products are SIZES by SIZES"},
      {"net 1 product 2x8 to 4", "products are SIZES by SIZES"},
      {"net 1 output 2x8x to 4", "\"2x8x\" in \"2x8x to 4\" is not sizes"},
      {"net 1 output 2x8x9x9 to 16 window 3", "no comma before"},
      {"net 1 output 2x8x9x9 to 16, windw 3", "is no option of a layer"},
      {"net 1 output 2x8x9x9 to 16, window 3x3x3", "has 3 numbers for 2"},
      {"net 1 output 2x8x9x9 to 16, groups 3", "3 groups do not divide"},
      {"net 1 output 2x8x2x2 to 16, window 3", "the window does not fit"},
      {"net 1 product 2x8 by 7x4", "matmul"},
      {"net 1 output 2x0x9x9 to 16", "has a size of zero"},
      {"net 1 output 2x8x9x9 to 16, window 3, stride 0", "\" stride 0\" has a zero"},
  };
  const TempFolder folder;
  for (const Row& row : rows) {
    const auto file = folder.path() / "list";
    std::ofstream(file) << row.line << "\n";
    std::string found;
    try {
      for (const ListedLayer& layer : read_layer_list(file))
        found +=
            fmt::format("{}{} {} {}", found.empty() ? "" : "; ", layer.role, layer.kind, to_string(layer.node.shape()));
    } catch (const Error& error) {
      found = error.what();
    }
    EXPECT_THAT(found, HasSubstr(row.found)) << row.line;
  }
  EXPECT_GT(read_layer_list(fs::path(NIXIE_SOURCE_DIR) / "apps/benchmark/nets.layers").size(), 200u);
}

ListedLayer listed(const std::string& line) {
  const TempFolder folder;
  std::ofstream(folder.path() / "list") << line << "\n";
  return read_layer_list(folder.path() / "list").at(0);
}

TEST(BenchmarkSweep, AProductOfManyMatricesIsRight) {
  const auto backend = make_backend("cpu");
  const ListedLayer layer = listed("net 1 product 2x3x12x20 by 2x3x20x8");
  LayerWork work(*backend, layer.node, precision_named("fp32"));
  EXPECT_LE(work.compare(layer.node.shape().size()).deviation.share(), 1);
  const auto operands = work.operands();
  EXPECT_EQ(operands[0].values.shape(), (Shape{2, 3, 12, 20}));
  EXPECT_EQ(operands[1].values.shape(), (Shape{2, 3, 20, 8}));
}

#ifdef NIXIE_WITH_CUDA
// No copy into the layout in which images and filters are stored.
TEST(BenchmarkSweep, AProductOfManyMatricesIsOneKernel) {
  const auto planner = make_planner("H200");
  const ListedLayer layer = listed("net 1 product 192x128x64 by 192x64x128");
  LayerWork work(*planner, layer.node, precision_named("fp16"));
  EXPECT_EQ(work.plan().kernels.size(), 1u);
}
#endif

constexpr const char* kSweep =
    "benchmark sweep --count 12 --seed 3 --runs 1 --backend cpu --python sh --peers . --json table.json";

TEST(BenchmarkSweep, RandomLayersStandBesideThePeer) {
  if (!has_python()) GTEST_SKIP() << "there is no python3";
  const Workplace folder;
  // Answers with a time that is always a million times longer, but cannot do gradients of filters.
  std::ofstream(folder / "torch_contractions.py") << R"(
echo '{"program": "cuDNN of the test", "engines": {}}'
while read -r request; do
  case $request in
    *filter_grad*) echo '{"error": "no filters"}' ;;
    *) echo '{"ms": {"mean": 1e6, "median": 1e6, "min": 1e6, "max": 1e6, "runs": 1}, "values": []}' ;;
  esac
done)";
  const Ran ran = folder.run(kSweep);
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto table = nlohmann::json::parse(folder.text("table.json"));
  ASSERT_EQ(table["rows"].size(), 12u);
  int left_out = 0;
  for (const auto& row : table["rows"]) {
    EXPECT_LE(row["share"], 1) << row;
    EXPECT_GT(row["ms"]["median"], 0);
    const bool has_peer = row["role"] != "filter_grad";
    EXPECT_EQ(row.contains("ratio"), has_peer) << row;
    left_out += has_peer ? 0 : 1;
  }
  EXPECT_EQ(table["seed"], 3);
  EXPECT_THAT(ran.output, HasParts(fmt::format("{} layers beside the peer ({} without it): geometric mean of the ratio",
                                               12 - left_out, left_out),
                                   "The ten worst"));
}

// A signal costs the rows that were not yet begun, no more. (Ctrl-C is ignored where tests run in the background.)
TEST(BenchmarkSweep, IsSummedUpAsFarAsItCame) {
  if (!has_python()) GTEST_SKIP() << "there is no python3";
  const Workplace folder;
  // The third row's peer sends the signal before it answers.
  std::ofstream(folder / "torch_contractions.py") << R"(
echo '{"program": "cuDNN of the test", "engines": {}}'
rows=0
while read -r request; do
  rows=$((rows + 1))
  [ $rows = 3 ] && kill -TERM $PPID
  echo '{"ms": {"mean": 1e6, "median": 1e6, "min": 1e6, "max": 1e6, "runs": 1}, "values": []}'
done)";
  expect_ran(folder.run(kSweep), 130, "3 layers beside the peer (0 without it): geometric mean of the ratio");
  const auto table = nlohmann::json::parse(folder.text("table.json"));
  EXPECT_EQ(table["rows"].size(), 3u);
}

}  // namespace
}  // namespace nixie::benchmark
