// The benchmark as a program: what it prints and writes, the checks on what it timed, exit codes.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/apps/support.h"

namespace nixie {
namespace {

using namespace nixie::test;
using testing::HasSubstr;

class BenchmarkProgram : public testing::Test {
 protected:
  /// Runs it with --json and gives the rows back by net.
  std::map<std::string, nlohmann::json> rows(const std::string& arguments) {
    const std::string file = (folder_ / "table.json").string();
    ran_ = run_program("benchmark " + arguments + " --backend cpu --json " + file);
    EXPECT_EQ(ran_.code, 0) << ran_.output;
    table_ = nlohmann::json::parse(text_of(file));
    std::map<std::string, nlohmann::json> rows;
    for (const auto& row : table_["rows"]) rows[row["net"]] = row;
    return rows;
  }

  TempFolder folder_;
  Ran ran_;
  nlohmann::json table_;
};

TEST_F(BenchmarkProgram, TimesEveryNetOfPyTorchsScript) {
  const auto table = rows("steps --batch 2 --runs 3 --threads 1 --rate 0.001");
  const std::map<std::string, std::int64_t> kParameters = {
      {"mlp", 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10},
      {"lenet", 25 * 32 + 32 + 32 * 25 * 64 + 64 + 64 * 49 * 512 + 512 + 512 * 10 + 10},
      {"cifar_bn", 27 * 32 + 32 + 64 + 9 * 32 * 32 + 32 + 64 + 9 * 32 * 64 + 64 + 128 + 64 * 64 * 10 + 10},
      {"alexnet", 61100840}};
  ASSERT_EQ(table.size(), kParameters.size());
  for (const auto& [net, row] : table) {
    EXPECT_EQ(row["parameters"], kParameters.at(net)) << net;
    EXPECT_EQ(row["batch"], 2);
    EXPECT_EQ(row["runs"], 3);
    EXPECT_GT(row["min_ms"], 0);
    EXPECT_LE(row["min_ms"], row["median_ms"]);
    EXPECT_LE(row["median_ms"], row["max_ms"]);
    EXPECT_NEAR(row["images_per_second"].get<double>() * row["median_ms"].get<double>(), 2e3, 1e-6);
    EXPECT_LT(row["lowest_loss"], row["first_loss"]) << net;
    EXPECT_GT(row["peak_mb"], row["start_mb"]) << net;
    EXPECT_THAT(ran_.output, HasSubstr("\n" + net + " "));
  }
  EXPECT_NEAR(table.at("alexnet")["first_loss"], std::log(1000.0), 0.7);  // an untrained net guesses
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)       // they need memory of their own
  // Weights, their momentum; and a later net does not see an earlier one's memory.
  EXPECT_GT(table.at("alexnet")["peak_mb"], 2 * 4 * 61.1);
  EXPECT_LT(table.at("alexnet")["peak_mb"], 3 * 4 * 61.1);  // no second copy of either on the host
  EXPECT_LT(rows("--net alexnet,mlp --batch 2 --runs 1 --rate 0.001").at("mlp")["peak_mb"], 100);
#endif
}

TEST_F(BenchmarkProgram, StepsIsWhatItDoesByDefaultAndTheFileSaysWhere) {
  const auto table = rows("--net mlp --runs 20 --threads 2");
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table.at("mlp")["batch"], 128);
  EXPECT_EQ(table_["command"], "steps");
  EXPECT_THAT(table_["program"].get<std::string>(), HasSubstr("backend cpu, 2 threads, built for "));
  EXPECT_THAT(ran_.output, HasSubstr(table_["processor"].get<std::string>()));
  EXPECT_THAT(table_["date"].get<std::string>(), testing::MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-9:]+Z"));
}

TEST_F(BenchmarkProgram, OneLineAndAnExitCode) {
  const struct {
    std::string arguments;
    int code;
    std::string expected;
  } kCases[] = {
      {"unknown", 2, "unknown"},
      {"--nett mlp", 2, "--nett"},
      {"--net mpl", 2, "--net: mpl not in {mlp,lenet,cifar_bn,alexnet}"},
      {"--backend gpu", 2, "--backend: gpu not in"},
      {"--threads 0", 2, "--threads"},
      {"--threads two", 2, "--threads"},
      {"steps --batch -1", 2, "--batch"},
      {"--runs 0", 2, "--runs"},
      {"--json", 2, "--json"},
      {"--net mlp --json /no/such/folder/table.json", 8, "/no/such/folder/table.json: cannot be written"},
      // What was timed did not train, and that is an error.
      {"--backend cpu --net mlp --batch 4 --runs 2 --rate 0", 7, "mlp: the loss never fell below its first value, "},
      {"--backend cpu --net mlp --batch 4 --runs 9 --rate 1e20", 7, "mlp: the loss of a timed step is "},
  };
  for (const auto& [arguments, code, expected] : kCases) {
    const Ran ran = run_program("benchmark " + arguments);
    EXPECT_EQ(ran.code, code) << arguments << "\n" << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("benchmark: "));
    EXPECT_THAT(ran.output, HasSubstr(expected)) << arguments;
    const std::size_t message = ran.output.find("benchmark: ");
    EXPECT_EQ(ran.output.find('\n', message), ran.output.size() - 1) << ran.output;
  }
}

TEST_F(BenchmarkProgram, WritingToAFullDiskIsSaid) {
  const Ran ran = run_program("benchmark --backend cpu --net mlp --batch 4 --runs 5 --json /dev/full");
  EXPECT_EQ(ran.code, 8);
  EXPECT_THAT(ran.output, HasSubstr("/dev/full: writing failed"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // those need terabytes of addresses
TEST_F(BenchmarkProgram, TooLittleMemoryIsSaid) {
  const Ran ran = run_program("benchmark --help > /dev/null; ulimit -v 600000; " NIXIE_BINARY_DIR
                              "/benchmark --backend cpu --threads 1 --net alexnet --batch 1 --runs 1");
  EXPECT_EQ(ran.code, 4) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("benchmark: alexnet: "));
}
#endif

}  // namespace
}  // namespace nixie
