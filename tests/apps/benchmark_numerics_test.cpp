// `benchmark numerics`: its distributions, and the errors that it finds.
#include "nixie/apps/benchmark/subjects/distributions.h"
#include "nixie/tests/apps/benchmark_program.h"

namespace nixie {
namespace {

TEST(Distributions, HaveTheSpreadTheirNameSays) {
  const struct {
    const char* name;
    double zeros, median, largest;  // a share, magnitudes
  } kExpected[] = {{"uniform", 0, 0.5, 1},
                   {"normal", 0, 0.67, 5},
                   {"normal x exp(2 normal)", 0, 0.6, 5e4},
                   {"normal x exp(4 normal)", 0, 0.57, 2e8},
                   {"normal x exp(6 normal)", 0, 0.57, 1e12},
                   {"2 % normal, else 0", 0.98, 0, 5},
                   {"normal, one of 1e6", 0, 0.67, 1e6},
                   {"half 1e-6, half 1e3", 0, 10, 5e3},
                   {"channels of 2^-30 to 2^30", 0, 1, 5e9}};
  const std::vector<benchmark::Distribution> drawn = benchmark::distributions();
  ASSERT_EQ(drawn.size(), std::size(kExpected));
  for (std::size_t d = 0; d < drawn.size(); ++d) {
    const auto& [name, zeros, median, largest] = kExpected[d];
    EXPECT_EQ(drawn[d].name, name);
    std::vector<double> sizes = drawn[d].draw({16, 256, 4}, 1).to_vector<double>();
    EXPECT_EQ(sizes, drawn[d].draw({16, 256, 4}, 1).to_vector<double>()) << name;
    EXPECT_NE(sizes, drawn[d].draw({16, 256, 4}, 2).to_vector<double>()) << name;
    for (double& x : sizes) x = std::abs(x);
    std::ranges::sort(sizes);
    EXPECT_NEAR(static_cast<double>(std::ranges::count(sizes, 0.0)) / static_cast<double>(sizes.size()), zeros, 0.01);
    EXPECT_LE(sizes.back(), largest) << name;
    EXPECT_GE(sizes.back(), largest / 1000) << name;
    if (median > 0 && d < 7) {
      EXPECT_NEAR(sizes[sizes.size() / 2], median, 0.1) << name;
    }
  }
}

// A channel's numbers share a scale, which the next channel has not.
TEST(Distributions, ChannelsHaveScalesOfTheirOwn) {
  const Array array = benchmark::distributions().back().draw({64, 128}, 1);
  std::vector<double> largest(128);
  const auto values = array.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) largest[i % 128] = std::max(largest[i % 128], std::abs(values[i]));
  EXPECT_GT(*std::ranges::max_element(largest) / *std::ranges::min_element(largest), 0x1p40);
}

class BenchmarkNumerics : public BenchmarkProgram {};

TEST_F(BenchmarkNumerics, FindsErrorsOfSumsOfF32) {
  const auto ran = benchmark("numerics --backend cpu --json t.json");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const nlohmann::json table = nlohmann::json::parse(folder_.text("t.json"));
  ASSERT_EQ(table["rows"].size(), benchmark::distributions().size());
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : table["rows"]) rows[row["distribution"]] = row;
  for (const char* name : {"uniform", "normal", "half 1e-6, half 1e3", "channels of 2^-30 to 2^30"}) {
    EXPECT_GT(rows[name]["largest"], 0.5) << name;  // some sums round
    EXPECT_LT(rows[name]["largest"], 100) << name;
    EXPECT_LE(rows[name]["median"], rows[name]["largest"]) << name;
  }
}

}  // namespace
}  // namespace nixie
