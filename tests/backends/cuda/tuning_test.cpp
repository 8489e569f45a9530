// Tuning: tables of measured choices, their effect on a kernel, the tuner with a clock of our own; all with a GPU.
#ifdef NIXIE_WITH_CUDA
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/backend.h"
#include "nixie/backends/cuda/compile/embedded_files.h"
#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/run/autotune.h"
#include "nixie/backends/cuda/tune/candidate_timer.h"
#include "nixie/backends/cuda/tune/tuning_tables.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/random.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/errors.h"

namespace nixie::cuda {
namespace {

using testing::HasSubstr;

Tuned line(const std::string& device, const std::string& operation, const std::string& algorithm) {
  return {.device = device,
          .operation = operation,
          .algorithm = algorithm,
          .microseconds = 12.5,
          .estimated_algorithm = "128x256",
          .estimated_microseconds = 14,
          .date = "2026-11-21",
          .version = "0.1.0"};
}

TEST(TuningDatabase, ComesBackAsItWasWritten) {
  TuningDatabase table;
  table.keep(line("NVIDIA H200", "f16 convolution", "256x128"));
  table.keep(line("NVIDIA H100", "f16 convolution", "192x128"));
  table.keep(line("NVIDIA H200", "f16 convolution", "128x192"));  // in place of the first
  TuningDatabase again;
  again.read(table.text(), "table");
  EXPECT_EQ(again.text(), table.text());
  ASSERT_EQ(again.size(), 2u);
  const Tuned* found = again.find("NVIDIA H200", "f16 convolution");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->algorithm, "128x192");
  EXPECT_EQ(found->microseconds, 12.5);
  EXPECT_EQ(found->estimated_algorithm, "128x256");
  EXPECT_EQ(found->estimated_microseconds, 14);
  EXPECT_EQ(found->date, "2026-11-21");
  EXPECT_EQ(found->version, "0.1.0");
  EXPECT_EQ(found->place, "table:3");
}

TEST(TuningDatabase, KnowsNothingOfOtherDevicesAndOperations) {
  TuningDatabase table;
  table.read("# a comment\n\nGPU\top\t64x64\t1.5\t64x64\t1.5\t2026-11-21\t0.1.0", "table");
  EXPECT_EQ(table.size(), 1u);
  EXPECT_TRUE(table.find("GPU", "op"));
  EXPECT_FALSE(table.find("GPU 2", "op"));
  EXPECT_FALSE(table.find("GPU", "op 2"));
}

TEST(TuningDatabase, RefusesWhatIsNoLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"GPU op 64x64", "table:2: 1 columns, expected 8"},
      {"GPU\top\t64x64\t1\t64x64\t1\t2026-11-21", "table:2: 7 columns, expected 8"},
      {"GPU\top\t64x64\t1\t64x64\t1\t2026-11-21\t0.1.0\t", "table:2: 9 columns, expected 8"},
      {"GPU\t\t64x64\t1\t64x64\t1\t2026-11-21\t0.1.0", "table:2: a column is empty"},
      {"GPU\top\t64x64\t1us\t64x64\t1\t2026-11-21\t0.1.0", "table:2: \"1us\" is no time"},
      {"GPU\top\t64x64\t1\t64x64\t-1\t2026-11-21\t0.1.0", "table:2: \"-1\" is no time"},
      {"GPU\top\t64x64\tnan\t64x64\t1\t2026-11-21\t0.1.0", "table:2: \"nan\" is no time"},
  };
  for (const auto& [text, message] : cases) {
    TuningDatabase table;
    const auto read = [&] { table.read(std::string("# heading\n") + text, "table"); };
    EXPECT_THAT(error_of(Fault::usage, read), HasSubstr(message)) << text;
  }
}

class TuningFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "nixie-tuning-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(TuningFile, GrowsAndKeepsWhatOthersWrote) {
  const std::filesystem::path file = folder_ / "tuning.tsv";
  TuningDatabase none;
  none.read_file(file);
  EXPECT_EQ(none.size(), 0u);
  add_to_file(file, {line("GPU", "a", "64x64"), line("GPU", "b", "64x64")});
  add_to_file(file, {line("GPU", "b", "128x64")});
  TuningDatabase table;
  table.read_file(file);
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table.find("GPU", "a")->algorithm, "64x64");
  EXPECT_EQ(table.find("GPU", "b")->algorithm, "128x64");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);  // no temporary is left
}

TEST_F(TuningFile, SaysWhatCannotBeWrittenOrRead) {
  const auto write = [&] { add_to_file(folder_ / "none" / "tuning.tsv", {line("GPU", "a", "64x64")}); };
  EXPECT_THAT(error_of(Fault::storage, write), HasSubstr("none/tuning.tsv: what was measured cannot be written"));
  std::ofstream(folder_ / "tuning.tsv") << "damaged";
  const auto add = [&] { add_to_file(folder_ / "tuning.tsv", {line("GPU", "a", "64x64")}); };
  EXPECT_THAT(error_of(Fault::usage, add), HasSubstr("tuning.tsv:1: 1 columns"));
  std::string text;
  std::getline(std::ifstream(folder_ / "tuning.tsv"), text);
  EXPECT_EQ(text, "damaged");  // left as it was
  std::filesystem::create_directory(folder_ / "folder.tsv");
  const auto read = [&] { TuningDatabase().read_file(folder_ / "folder.tsv"); };
  EXPECT_THAT(error_of(Fault::usage, read), HasSubstr("folder.tsv: this table cannot be read"));
}

class TunedKernel : public testing::Test {
 protected:
  TunedKernel() : plan_(lowered()), estimated_(generate(plan_, plan_.groups[0], chip())) {}
  static Chip chip() { return chip_named("sm_90a"); }
  static Plan lowered() {
    Plan plan = hopper_plans::forward("layer", "64x64x27x27 by 192x5x5 pad 2", hopper_plans::Forward::bias_relu).plan;
    lower(plan, chip());
    return plan;
  }
  KernelCode with(const TuningDatabase& table) { return generate_known(plan_, plan_.groups[0], chip(), "GPU", table); }

  Plan plan_;
  KernelCode estimated_;
};

TEST_F(TunedKernel, TakesTheAlgorithmOfItsLine) {
  for (const Algorithm& algorithm : estimated_.algorithms) {
    TuningDatabase table;
    table.keep(line("GPU", estimated_.operation, algorithm.name));
    EXPECT_EQ(with(table).variant, "conv_fprop_sm90 " + algorithm.name);
    EXPECT_EQ(with(table).source, generate(plan_, plan_.groups[0], chip(), algorithm.name).source);
  }
}

TEST_F(TunedKernel, GoesByTheEstimateWithoutOne) {
  TuningDatabase table;
  EXPECT_EQ(with(table).source, estimated_.source);
  table.keep(line("another GPU", estimated_.operation, estimated_.algorithms.back().name));
  table.keep(line("GPU", estimated_.operation + ", writes f16", estimated_.algorithms.back().name));
  EXPECT_EQ(with(table).source, estimated_.source);
}

TEST_F(TunedKernel, RefusesALineThatNamesNoAlgorithm) {
  TuningDatabase table;
  table.read("\nGPU\t" + estimated_.operation + "\t250x128\t1\t64x64\t1\t2026-11-21\t0.1.0", "mine.tsv");
  const std::string message = error_of([&] { with(table); });
  EXPECT_THAT(message, HasSubstr("mine.tsv:2: f16 convolution of 64x64x27x27 by 192x5x5 pad 2x2, reads f32, writes f16 "
                                 "cannot be computed by 250x128, only by "));
  EXPECT_THAT(message, HasSubstr(estimated_.algorithms.back().name));
}

// That of a table of the user's is refused: the user can remove it.
TEST_F(TunedKernel, GoesByTheEstimateWhereAShippedLineNamesNoAlgorithm) {
  TuningDatabase table;
  table.read("GPU\t" + estimated_.operation + "\t250x128\t1\t64x64\t1\t2026-11-21\t0.1.0", "shipped.tsv", true);
  EXPECT_EQ(with(table).source, estimated_.source);
}

std::string layer_of(const std::string& operation) { return operation.substr(0, operation.find(',')); }

// A line's layer: "f16 filter gradient of 128x480x14x14 by 64x1x1 pad 1x1".
Plan plan_of_layer(const std::string& operation) {
  static const std::regex text("(f16|bf16) (convolution|filter gradient|input gradient) of (.*)");
  std::smatch found;
  const std::string of = layer_of(operation);
  check(std::regex_match(of, found, text), "no layer: ", operation);
  const hopper_plans::Layer layer(found[3].str() + " " + found[1].str());
  if (found[2] == "convolution") return hopper_plans::forward("layer", layer, hopper_plans::Forward::plain).plan;
  if (found[2] == "input gradient") return hopper_plans::input_grad("layer", layer, false).plan;
  return hopper_plans::filter_grad("layer", layer, hopper_plans::Gradient::stored).plan;
}

TEST(ShippedTable, NamesAlgorithmsThatItsLayersHave) {
  const Chip chip = chip_named("H200");
  std::size_t count = 0, lines_in_all = 0;
  for (const EmbeddedFile& file : embedded_tuning()) {
    std::istringstream lines{std::string(file.text)};
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      ++lines_in_all;
      std::istringstream columns(line);
      std::string device, operation, algorithm;
      std::getline(columns, device, '\t'), std::getline(columns, operation, '\t'),
          std::getline(columns, algorithm, '\t');
      Plan plan = plan_of_layer(operation);
      lower(plan, chip, false);
      for (const Group& group : plan.groups) {
        if (blas_problem(group)) continue;
        const KernelCode code = generate(plan, group, chip);
        if (!code.operation.starts_with(layer_of(operation))) continue;
        std::vector<std::string> names;
        for (const Algorithm& each : code.algorithms) names.push_back(each.name);
        EXPECT_THAT(names, testing::Contains(algorithm)) << file.name << ": " << operation;
        ++count;
      }
    }
  }
  EXPECT_EQ(count, lines_in_all);
}

TEST(Tuner, TimesTheFewThatTheEstimateLeaves) {
  const auto names = [](std::vector<double> estimates) {
    std::vector<Algorithm> algorithms;
    for (double estimate : estimates) algorithms.push_back({std::to_string(algorithms.size()), estimate});
    std::string found;
    for (const Algorithm& algorithm : worth_timing(algorithms)) found += algorithm.name;
    return found;
  };
  EXPECT_EQ(names({}), "");
  EXPECT_EQ(names({10}), "0");
  EXPECT_EQ(names({10, 13, 13.1, 50}), "01");
  EXPECT_EQ(names({10, 10, 10, 10, 10, 10, 10, 10}), "0123456");
}

TEST(Tuner, TakesTheLeastMedianOfTurnsUnlessItIsATie) {
  std::vector<std::size_t> order;
  const auto fastest = [&](std::vector<std::vector<double>> times) {
    order.clear();
    std::vector<std::size_t> next(times.size());
    return fastest_of(times.size(), [&](std::size_t way) {
      order.push_back(way);
      return times[way][next[way]++];
    });
  };
  EXPECT_EQ(fastest({{10, 10, 10, 10, 10}, {9, 9, 9, 9, 9}, {12, 12, 12, 12, 12}}).index, 1u);
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  // One fast turn, or one slow one, decides nothing.
  const Fastest found = fastest({{10, 10, 99, 10, 10}, {11, 11, 1, 11, 11}, {8, 80, 8, 8, 80}});
  EXPECT_EQ(found.index, 2u);
  EXPECT_EQ(found.microseconds, (std::vector<double>{10, 11, 8}));
  EXPECT_EQ(fastest({{10, 10, 10, 10, 10}, {9.9, 9.9, 9.9, 9.9, 9.9}}).index, 0u);
}

TEST(TuningMode, IsWhatTheVariableSays) {
  const std::string before = std::getenv("NIXIE_TUNING");  // tests/tuning_off.cpp
  EXPECT_EQ(tuning(), Tuning::off);
  for (const auto& [word, mode] : {std::pair{"", Tuning::known},
                                   {"known", Tuning::known},
                                   {"off", Tuning::off},
                                   {"measure", Tuning::measure},
                                   {"again", Tuning::again}}) {
    setenv("NIXIE_TUNING", word, 1);
    EXPECT_EQ(tuning(), mode) << word;
  }
  setenv("NIXIE_TUNING", "fast", 1);
  EXPECT_THAT(error_of([] { tuning(); }), HasSubstr("NIXIE_TUNING is fast, expected off, known"));
  setenv("NIXIE_TUNING", before.c_str(), 1);
}

// Quarters of small numbers: halves hold them, f32 the sums of their products, so that all orders of sums agree.
Tensor quarters(const Shape& shape, std::uint64_t seed) {
  return cast(floor(uniform(shape, seed) * 9) * 0.25 - 1, Dtype::f16);
}

std::vector<Array> computed_by(Backend& backend) {
  const Tensor y = conv(quarters({32, 128, 28, 28}, 1), quarters({128, 128, 3, 3}, 2), {.pad = {1, 1}});
  const Tensor z = matmul(quarters({96, 256}, 3), quarters({256, 512}, 4));
  std::vector<Array> results;
  for (const Tensor& result : evaluate({cast(relu(y), Dtype::f32), cast(z, Dtype::f32)}, backend))
    results.push_back(result.array());
  return results;
}

/// Measures everything, then computes by what it has found; ends the process, with 0 if all went well.
[[noreturn]] void measure_and_use(const std::filesystem::path& folder) {
  setenv("NIXIE_CACHE", folder.c_str(), 1);
  const auto cuda = make_cuda_backend(), cpu = make_cpu_backend(2);
  const std::vector<Array> expected = computed_by(*cpu);
  for (const char* mode : {"again", "known"}) {
    setenv("NIXIE_TUNING", mode, 1);
    std::fprintf(stderr, "%s\n", mode);
    const std::vector<Array> found = computed_by(*cuda);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!std::ranges::equal(found[i].data<float>(), expected[i].data<float>())) std::exit(1);
  }
  const bool kept = std::filesystem::exists(folder / "tuning.tsv");
  std::filesystem::remove_all(folder);
  std::exit(kept ? 0 : 2);
}

TEST_F(TuningFile, OfADeviceIsMeasuredOnceAndUsed) {
  if (!cuda_or_null()) GTEST_SKIP() << "no GPU";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(measure_and_use(folder_), testing::ExitedWithCode(0), "again\n(tuned: .*\n)+known\n$");
}

}  // namespace
}  // namespace nixie::cuda
#endif
