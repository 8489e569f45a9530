// The benchmark as a program: what it prints and writes, the checks on what it timed, exit codes.
#include <nlohmann/json.hpp>

#include "nixie/tests/apps/benchmark_program.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

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
  EXPECT_LT(rows("steps --net alexnet,mlp --batch 2 --runs 1 --rate 0.001").at("mlp")["peak_mb"], 100);
#endif
}

TEST_F(BenchmarkProgram, TheFileOfStepsSaysWhere) {
  const auto table = rows("steps --net mlp --runs 20 --threads 2");
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
      {"show /tmp", 2, "/tmp: cannot be read: it is not a regular file; name a file that --json wrote"},
      {"--nett mlp", 2, "--nett"},
      {"steps --net mpl", 2, "--net: mpl not in {mlp,lenet,cifar_bn,alexnet}"},
      {"--net alexnot", 2, "--net: alexnot not in {alexnet,overfeat,vgg_a,vgg_e,googlenet,resnet18,"},
      {"nets --precision fp8", 2, "--precision: fp8 not in"},
      {"tune --net lenet", 2, "--net: lenet not in {alexnet,overfeat,"},
      {"tune --net alexnet --config configs/mnist.yaml", 2, "excludes"},
      {"nets --set seed=1", 2, "--set requires --config"},
      {"nets --nervana --config configs/mnist.yaml", 2, "excludes"},
      {"nets --nervana --net resnet18", 2,
       "--nervana has variants of alexnet, overfeat, vgg_a, vgg_e and googlenet only"},
      {"layers --net alexnet --config configs/mnist.yaml", 2, "excludes"},
      {"sweep --count 0", 2, "--count"},
      {"sweep --kind narrow", 2, "--kind"},
      {"nets --config /no/such.yaml", 2, "/no/such.yaml"},
      {"nets --csv /no/such/folder/table.csv", 8, "/no/such/folder/table.csv cannot be created"},
      {"--backend gpu", 2, "--backend: gpu not in"},
      {"--threads 0", 2, "--threads"},
      {"--threads two", 2, "--threads"},
      {"steps --batch -1", 2, "--batch"},
      {"--runs 0", 2, "--runs"},
      {"--json", 2, "--json"},
      {"steps --net mlp --json /no/such/folder/table.json", 8, "/no/such/folder/table.json cannot be created"},
      // The net that was timed did not train, which is an error.
      {"steps --backend cpu --net mlp --batch 4 --runs 2 --rate 0", 7,
       "mlp: the loss never fell below its first value, "},
      {"steps --backend cpu --net mlp --batch 4 --runs 9 --rate 1e20", 7, "mlp: the loss of a timed step is "},
  };
  for (const auto& [arguments, code, expected] : kCases) {
    const Ran ran = expect_ran(run_program("benchmark " + arguments), code, "benchmark: ", expected);
    const std::size_t message = ran.output.find("benchmark: ");
    EXPECT_EQ(ran.output.find('\n', message), ran.output.size() - 1) << ran.output;
  }
}

TEST_F(BenchmarkProgram, ADeviceIsNotReplaced) {
  expect_ran(run_program("benchmark steps --backend cpu --net mlp --batch 4 --runs 5 --json /dev/full"), 8,
             "/dev/full is a device");
}

TEST_F(BenchmarkProgram, NetsMayBeOfAnyForm) {
  const struct {
    const char *name, *model, *data, *options;
    int updates;  // filter gradients
  } kCases[] = {
      {"labels of pixels",
       "[{conv2d: {out: 8, kernel: 3, pad: 1}}, relu, {upsample: {mode: bilinear}}, {conv2d: {out: 4, kernel: 1}}]",
       "height: 6, width: 6, train: 16, test: 8, batch: 4", "", 2},
      // The bias gradient is the sum of the operand that the filter gradient reads as images.
      {"transposed convolutions",
       "[{conv2d: {out: 6, kernel: 3, stride: 2}}, relu, {deconv2d: {out: 6, kernel: 4, stride: 2}}, relu, {deconv2d: "
       "{out: 4, kernel: 3, stride: 2, pad: 1, groups: 2}}, relu, global_avg_pool, flatten, {linear: {out: 3}}]",
       "train: 16, test: 8, height: 15, width: 17, classes: 3, batch: 8", "", 4},
      // A bias gradient is summed before its terms are stored as subnormal halves, which moves them all to one side.
      {"slopes of subnormal halves",
       "[{conv2d: {out: 8, kernel: 3, pad: 1, bias: false}}, batch_norm, relu, {concat: {branches: [identity, "
       "{sequential: [max_pool2d, {deconv2d: {out: 8, kernel: 2, stride: 2}}]}]}}, {conv2d: {out: 8, kernel: 3, pad: "
       "1, "
       "bias: false}}, batch_norm, relu, {conv2d: {out: 3, kernel: 1}}, global_avg_pool, flatten]",
       "height: 96, width: 96, classes: 3, train: 8, test: 8, batch: 1", " --precision fp16", 4},
      // All slopes at a bias may be smaller than any half: the checked sum is zero, that of a fused kernel is not.
      {"slopes below all halves",
       "[{conv2d: {out: 4, kernel: 4, stride: 4}}, batch_norm, relu, {deconv2d: {out: 4, kernel: 4, stride: 4}}, "
       "batch_norm, elu, {deconv2d: {out: 2, kernel: 4, stride: 4}}, batch_norm, elu, global_avg_pool, flatten, "
       "{linear: {out: 3}}]",
       "channels: 1, height: 128, width: 128, classes: 3, train: 8, test: 8, batch: 4", " --precision fp16", 4},
  };
  for (const auto& [name, model, data, options, updates] : kCases) {
    folder_.write("net.yaml", fmt::format("model: {}\ndata: {{generated: {{{}}}}}\noptimizer: sgd\n"
                                          "schedule: {{constant: {{rate: 0.001}}}}\nepochs: 1\nbackend: cpu\n",
                                          model, data));
    const auto table = rows(std::string("nets --config net.yaml --runs 1") + options);
    ASSERT_EQ(table.size(), 1u) << name;
    const nlohmann::json& row = table.at("net");
    EXPECT_LT(row["lowest_loss"], row["first_loss"]) << name;
    EXPECT_EQ(row["check"]["update"]["contractions"], updates) << name;
    EXPECT_GT(row["check"]["update"]["error"], 0) << name;
  }
}

TEST_F(BenchmarkProgram, BothDoorsPrintTheRowsOfAConfiguration) {
  const auto first =
      rows("nets --config " + small_net("{dropout: {rate: 0.5}}, ", "schedule: {cosine: {rate: 0.001}}") +
           " --runs 11 --csv table.csv");
  ASSERT_EQ(first.size(), 1u);
  const nlohmann::json& row = first.at("small");
  EXPECT_EQ(row["batch"], 8);
  EXPECT_EQ(row["precision"], "fp32");
  EXPECT_EQ(row["fprop_ms"]["runs"], 11);
  EXPECT_NEAR(row["fprop_gflop"], 2e-9 * 8 * (8 * 100 * 27 + 800 * 10), 1e-15);
  EXPECT_NEAR(row["executed_gflop"], 3 * row["fprop_gflop"].get<double>() - 2e-9 * 8 * 8 * 100 * 27, 1e-15);
  EXPECT_EQ(row["check"]["fprop"]["contractions"], 2);
  EXPECT_EQ(row["check"]["bprop"]["contractions"], 1) << "the first layer's is skipped";
  EXPECT_EQ(row["check"]["update"]["contractions"], 2);
  for (const char* role : {"fprop", "bprop", "update"}) EXPECT_LE(row["check"][role]["error"], 5e-5) << role;
  EXPECT_LT(row["lowest_loss"], row["first_loss"]);
  for (const char* time : {"fprop_ms", "total_ms", "train_ms"}) {
    EXPECT_GT(row[time]["min"], 0);
    EXPECT_LE(row[time]["min"], row[time]["median"]);
    EXPECT_LE(row[time]["median"], row[time]["max"]);
  }
  EXPECT_THAT(ran_.output, ContainsRegex("Small \\(dtype=float32, N=8\\) Results:\nAvg\\(11\\) fprop: +[0-9.]+ msecs "
                                         "[0-9.]+ gflops\nAvg\\(11\\) bprop: +[-0-9.]+ msecs"));
  EXPECT_THAT(folder_.text("table.csv"), HasSubstr("fprop_ms.median"));
  for (const char* fact : {"commit", "date", "processor", "compiler", "program"})
    EXPECT_TRUE(table_.contains(fact)) << fact;

  expect_ran(folder_.trainer("benchmark --config small.yaml --json other.json"), 0);
  const auto second = nlohmann::json::parse(folder_.text("other.json"))["rows"][0];
  for (const char* same : {"net", "batch", "precision", "parameters", "executed_gflop", "check", "first_loss"})
    EXPECT_EQ(second[same], row[same]) << same;
  expect_ran(folder_.trainer("benchmark --config small.yaml --backend gpu"), 2,
             "trainer benchmark: --backend: gpu not in");
}

TEST_F(BenchmarkProgram, EveryTableHasItsRowsWithinTheirBounds) {
  const struct {
    std::string command;
    std::size_t rows;
  } kCases[] = {
      {"gemm --size 7,9,5 --runs 1", 4},                              // nn, tn, nt, and alpha and beta
      {"gemm --size 1,1,1 --runs 1 --precision fp16,bf16,ieee", 12},  //
      {"layers --net alexnet --batch 1 --runs 1", 23},                // three roles of eight layers, but one
      {"arrays --largest 3000 --runs 1", 9},                          //
      {"data --seconds 0.01 --threads 2", 6},
      {"scaling --runs 1", 12},  // batch, depth and side in four sizes each
  };
  for (const auto& [command, count] : kCases) {
    const Ran ran = benchmark(command + (command.starts_with("data") ? "" : " --backend cpu --threads 2") +
                              " --overwrite --json table.json --csv table.csv");
    ASSERT_EQ(ran.code, 0) << ran.output;
    const auto rows = nlohmann::json::parse(folder_.text("table.json"))["rows"];
    EXPECT_EQ(rows.size(), count) << ran.output;
    for (const auto& row : rows) {
      if (row.contains("error")) {
        EXPECT_LE(row.contains("bound") ? row["error"] : row["share"], row.value("bound", 1.0)) << row;
      }
    }
    const std::string table = folder_.text("table.csv");
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), static_cast<std::ptrdiff_t>(count + 1));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // those need terabytes of addresses
TEST_F(BenchmarkProgram, TooLittleMemoryIsSaid) {
  for (const std::string command : {"steps", "nets"})
    expect_ran(benchmark(command + " --backend cpu --threads 1 --net alexnet --batch 1 --runs 1", "ulimit -v 400000; "),
               4, command == "steps" ? "benchmark: alexnet: " : "benchmark: ");
}
#endif

}  // namespace
}  // namespace nixie
