// The benchmark's pages and charts, which apps/peers/render.py makes, and curves of runs; skipped without python3.
#include <filesystem>
#include <regex>

#include "nixie/tests/apps/benchmark_program.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

class BenchmarkRender : public BenchmarkProgram {
 protected:
  void SetUp() override {
    if (!has_python()) GTEST_SKIP() << "there is no python3";
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Writes a table as --json does.
  std::string table(const std::string& command, const std::string& rows, const std::string& more = "") {
    folder_.write("table.json", R"({"command": ")" + command + R"(", "date": "2026-01-02T03:04:05Z", )" +
                                    R"("commit": "abc", "processor": "Chip", "device": "Card", "driver": "1", )" +
                                    R"("sm_clock": "9 MHz", )" + more + R"("rows": [)" + rows + "]}");
    return "table.json";
  }
  std::string chart(const std::string& table) {
    expect_ran(benchmark("show " + table + " --overwrite --plot chart.svg"), 0);
    return folder_.text("chart.svg");
  }
};

std::string timing(double ms) {
  std::ostringstream text;
  text << R"({"mean": )" << ms << R"(, "median": )" << ms << R"(, "min": )" << ms / 2 << R"(, "max": )" << 2 * ms
       << R"(, "runs": 3})";
  return text.str();
}

/// A row of a net whose best peer takes twice nixie's time, and of one that is slower.
std::string compared(const std::string& net) {
  const std::string times = R"("fprop_ms": )" + timing(1) + R"(, "bprop_ms": )" + timing(1) + R"(, "total_ms": )" +
                            timing(2) + R"(, "train_ms": )" + timing(3);
  const std::string slow = R"({"peer": "torch eager", "fprop_ms": )" + timing(2) + R"(, "total_ms": )" + timing(4) +
                           R"(, "train_ms": )" + timing(6) + "}";
  const std::string role = R"({"error": 1e-6})", best = R"({"peer": "torch eager", "median": 4, "ratio": 2})";
  return R"({"net": ")" + net + R"(", "precision": "fp16", "batch": 8, "counted_gflop": 200, "counted_tflops": 100, )" +
         R"("executed_tflops": 90, "percent_of_ceiling": 50, "check": {"fprop": )" + role + R"(, "bprop": )" + role +
         R"(, "update": )" + role + R"(, "distance": 0}, )" + times + R"(, "peers": [)" + slow +
         R"(], "left_out": [{"peer": "jax", "why": "no <jax>"}], "best_peer": {"total_ms": )" + best + "}}";
}

TEST_F(BenchmarkRender, ATableOfRatiosAndItsParts) {
  const std::string file = table("compare", compared("alexnet"));
  const std::string all = benchmark("show " + file).output;
  EXPECT_THAT(all,
              HasParts(StartsWith("2026-01-02, 03:04 UTC; commit abc; one Card, driver 1, SM clock 9 MHz; Chip.\n\n"
                                  "| net, batch | precision | fprop ms: nixie, best peer | ratio |"),
                       "| alexnet 8 | fp16 | 1 | no peer | 2, 4 torch eager | **2.00** | 3 | no peer |\n",
                       "| alexnet 8 | fp16 | 1 (0.5 - 2) | 1 (0.5 - 2) | 2 (1 - 4) | 100, 90 | 50 | 3 (1.5 - 6) |",
                       "| alexnet 8 | fp16 | torch eager | 2 (1 - 4) | 4 (2 - 8) | 6 (3 - 12) |  |\n",
                       "\nLeft out: alexnet fp16: jax: no <jax>.\n"));
  const std::string brief = benchmark("show --brief " + file).output;
  EXPECT_THAT(brief, HasParts("| **2.00** |", Not(HasSubstr("Left out"))));
}

TEST_F(BenchmarkRender, EveryTableHasItsColumns) {
  const std::string peer = R"("peer": {"ms": )" + timing(0.004) + R"(, "error": 0}, )";
  const struct {
    const char* command;
    std::string row, expected;  // of the table; and in the chart, where there is one
    const char* in_chart;
  } kCases[] = {
      {"gemm",
       R"("m": 7, "n": 9, "k": 5, "layout": "tn", "alpha": 0.5, "beta": 1, "precision": "fp16", "ms": )" +
           timing(0.002) + R"(, "tflops": 3, "roofline_ms": 0.001, )" + peer + R"("error": 1e-7)",
       "| 7 x 9 x 5 | tn | 0.5, 1 | fp16 | 2 (1 - 4) | 3 | 50 | 4 (2.00) | 1.0e-07 |", ">PyTorch, any layout<"},
      {"layers",
       R"("net": "alexnet", "layer": "conv", "role": "bprop", "precision": "fp16", "ms": )" + timing(0.002) +
           R"(, "gflop": 2, "megabytes": 4, "tflops": 3, "gigabytes_per_second": 12, "roofline_ms": 0.001, )" + peer +
           R"("error": 1e-7)",
       "| alexnet | conv | bprop | fp16 | 2 (1 - 4) | 3 | 12 | 50 | 4 (2.00) | 1.0e-07 |", ">fp16 roofline<"},
      {"arrays",
       R"("workload": "x *= 5", "elements": 1000, "gigabytes_per_second": 8, "tflops": 0, "error": 0, "cpu_ms": 2, "ms": )" +
           timing(4),
       "| x *= 5 | 1000 | 4 (2 - 8) | 8 |  | 0.0e+00 | 2 | 0.50 |", ">x *= 5 (CPU)<"},
      {"scaling",
       R"("grows": "depth", "factor": 2, "batch": 3, "depth": 4, "side": 5, "counted_tflops": 6, "fprop_ms": )" +
           timing(1) + R"(, "total_ms": )" + timing(2) + R"(, "train_ms": )" + timing(3),
       "| depth | 3 | 4 | 5 | 1 | 2 | 3 | 6 |", ">depth<"},
      {"data", R"("data": "glyphs", "sample": "[1]", "threads": 2, "batch": 8, "images_per_second": 123.4)",
       "| glyphs | [1] | 2 | 8 | 123 |", nullptr},
      {"numerics", R"("precision": "tf32", "distribution": "normal", "largest": 2.5, "where": "1x1, y", "median": 1)",
       "| tf32 | normal | 2.5 | 1x1, y | 1 |", nullptr},
  };
  for (const auto& [command, row, expected, in_chart] : kCases) {
    const std::string file =
        table(command, "{" + row + "}", R"("copy_gigabytes_per_second": 1000, "ceiling_tflops_fp16": 700, )");
    EXPECT_THAT(benchmark("show " + file).output, HasSubstr("\n" + expected + "\n"));
    if (in_chart)
      EXPECT_THAT(chart(file), HasSubstr(in_chart));
    else
      EXPECT_THAT(benchmark("show " + file + " --overwrite --plot none.svg").output,
                  HasSubstr("benchmark: there is no chart of " + std::string(command)));
  }
}

TEST_F(BenchmarkRender, ASweepIsSummedUpWhereItHasAPeer) {
  std::string rows = R"({"layer": "alone", "role": "output", "kind": "dense"})";
  for (const double ratio : {4.0, 0.5, 1.0, 2.0})
    rows += fmt::format(R"(, {{"layer": "L{0}", "ratio": {0}, "role": "{1}", "kind": "dense", "algorithm": "A", )"
                        R"("ms": {2}, "peer": {{"ms": {2}}}}})",
                        ratio, ratio < 1 ? "output" : "input_grad", timing(1));
  const std::string text = benchmark("show " + table("sweep", rows)).output;
  EXPECT_THAT(text,
              HasParts("4 layers beside the peer (1 without it): geometric mean of the ratio **1.414**; quantiles "
                       "0% 0.50, 5% 0.50, 25% 1.00, ",
                       "100% 4.00; 75.0 % at least 0.9, 75.0 % at least 0.6.\n",
                       "| input_grad dense | 3 | 2.00 | 0 % |\n| output dense | 1 | 0.50 | 100 % |\n\nThe ten worst:\n",
                       "| --- |\n| L0.5 | output | 1000.0 | 1000.0 | 0.50 | A |\n| L1 | "));
}

TEST_F(BenchmarkRender, BarsNameBothSidesAndTheirValues) {
  const std::string svg = chart(table("compare", compared("alexnet") + "," + compared("a<b")));
  EXPECT_THAT(svg, HasParts(">nixie<", ">PyTorch<", ">alexnet<", ">a&lt;b<", ">100 · 2.00×<", ">50<",
                            "<title>alexnet, PyTorch: 50</title>", "TFLOP/s, more is better", "role=\"img\"",
                            "aria-label=\"Forward and backward", "prefers-color-scheme: dark"));
}

TEST_F(BenchmarkRender, PointsDifferByColourOrMark) {
  std::string rows;
  for (const char* role : {"output", "input_grad", "filter_grad"})
    for (const char* kind : {"dense", "grouped", "depthwise"})
      rows += fmt::format(R"({0}{{"layer": "L", "role": "{1}", "kind": "{2}", "gflop": 0.5, "ratio": 1.5, )"
                          R"("algorithm": "A", "ms": {3}, "peer": {{"ms": {3}}}}})",
                          rows.empty() ? "" : ",", role, kind, timing(1));
  const std::string svg = chart(table("sweep", rows));
  const std::regex mark("class=\"mark (c[0-9]+)\" transform=\"[^\"]*\" d=\"([^\"]*)\"><title>");
  std::set<std::string> looks;
  for (std::sregex_iterator found(svg.begin(), svg.end(), mark), end; found != end; ++found)
    looks.insert((*found)[1].str() + (*found)[2].str());
  EXPECT_EQ(looks.size(), 9u);
  EXPECT_THAT(svg, HasParts(">input_grad grouped<", "nixie, times as fast as cuDNN", ">as fast as cuDNN<",
                            "<title>output dense: 1.5 at 500000000</title>"));
}

TEST_F(BenchmarkRender, ATableGoesIntoAPageAndAChart) {
  ASSERT_EQ(benchmark("gemm --size 7,9,5 --runs 1 --backend cpu --json table.json --plot chart.svg").code, 0);
  EXPECT_THAT(folder_.text("chart.svg"), HasSubstr("Matrix products"));
  std::ofstream(path("page.md")) << "before\n<!-- benchmark gemm -->\nold\n<!-- end -->\nafter\n";
  const Ran shown = benchmark("show table.json");
  EXPECT_THAT(shown.output, HasSubstr("| 7 x 9 x 5 | nn | 1, 0 | fp32 | "));
  ASSERT_EQ(benchmark("show table.json --page page.md").code, 0);
  EXPECT_EQ(folder_.text("page.md"), "before\n<!-- benchmark gemm -->\n" + shown.output + "<!-- end -->\nafter\n");
}

TEST_F(BenchmarkRender, CurvesAreMeansOverRuns) {
  const std::string header = "epoch,step,split,loss,accuracy,learning_rate\n";
  const auto run = [&](const std::string& name, const std::string& rows) {
    std::filesystem::create_directory(path(name));
    std::ofstream(path(name + "/metrics.csv")) << header << rows;
    return path(name);
  };
  const std::string one = run("one", "1,5,train,1,0.1,1\n1,5,test,1,0.9,1\n2,10,test,1,0.95,1\n"),
                    other = run("other", "1,5,test,1,0.7,1\n"), none = run("none", "x,5,test,1,0.7,1\n");
  const std::string curves = "python3 " NIXIE_SOURCE_DIR "/apps/peers/curves.py --title T --plot " + path("c.svg");
  const struct {
    std::string runs;
    int code;
    std::string expected;  // in what it prints, or in the chart
  } kCases[] = {
      {" 'a b=" + one + "," + other + "'", 0, "<title>a b: 20 at 1</title>"},  // epoch 2 is not in both
      {" a=" + one + " b=" + other, 0, "<title>a: 5 at 2</title>"},
      {" a=" + path("nowhere"), 1, "nowhere/metrics.csv: No such file or directory\n"},
      {" a=" + none, 1, "has no column of test accuracies by epoch; name the run of a classifier\n"},
      {" a", 2, "a: is no LABEL=RUN,RUN..."},
  };
  for (const auto& [runs, code, expected] : kCases) {
    const Ran ran = run_shell(curves + runs);
    EXPECT_EQ(ran.code, code) << runs << "\n" << ran.output;
    EXPECT_THAT(code == 0 ? text_of(path("c.svg")) : ran.output, HasSubstr(expected));
  }
}

TEST_F(BenchmarkRender, OneLineAndAnExitCode) {
  std::ofstream(path("odd.json")) << R"({"command": "gemm", "date": "", "commit": "", "rows": [{"m": "x"}]})";
  table("gemm", "");
  std::ofstream(path("page.md")) << "<!-- benchmark gemm -->\n<!-- end -->\n";
  std::ofstream(path("chart.svg")) << "old";
  const std::string gemm = "benchmark gemm --size 7,9,5 --runs 1 --backend cpu --plot ";
  const struct {
    std::string command, before;
    int code;
    std::string expected;
  } kCases[] = {
      {"benchmark show table.json --plot chart.svg", "", 2,
       "chart.svg is there already; name another file, or replace it with --overwrite\n"},
      {"benchmark show table.json --page page.md --name other", "", 2,
       "page.md: there is no <!-- benchmark other --> with <!-- end --> after it; put both where the table shall be\n"},
      {"benchmark show odd.json", "", 2, "odd.json: is no table that --json wrote; name another file\n"},
      {"benchmark show page.md", "", 2, "page.md: is no table that --json wrote; name another file\n"},
      {"benchmark show none.json", "", 2, "none.json: cannot be read: "},
      {gemm + "/no/such/chart.svg", "", 8, "/no/such/chart.svg cannot be created"},
      {gemm + path("new.svg"), "PATH=/nowhere ", 2,
       "python3 cannot be started, which makes charts, pages and the summary of a sweep; install it"},
  };
  for (const auto& [command, before, code, expected] : kCases) {
    const Ran ran = folder_.run(command, before);
    expect_ran(ran, code, "benchmark: ", expected);
    EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << ran.output;
  }
  EXPECT_EQ(folder_.text("chart.svg"), "old");
}

}  // namespace
}  // namespace nixie
