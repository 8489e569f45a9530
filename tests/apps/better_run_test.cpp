// Which run a command hints at that takes the newest one.
#include "nixie/apps/trainer/commands/command_line.h"

#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

const std::string kData = "{glyphs: {train: 40, test: 20, batch: 20}}";

/// A run's folder with evaluations of these accuracies, whose losses are 1 minus them.
void write_run(const fs::path& run, const std::vector<double>& accuracies, const std::string& more = "",
               const std::string& data = kData) {
  fs::create_directories(run);
  std::ofstream(run / "config.yaml") << config_text(
      parse_config("{model: [flatten, {linear: {out: 10}}], steps: 9, data: " + data + more + "}", "test"));
  std::ofstream table(run / "metrics.csv");
  table << "epoch,step,split,loss,accuracy,learning_rate\n1,1,train,0.1,0.999,0.1\n";
  for (std::size_t i = 0; i < accuracies.size(); ++i)
    table << fmt::format("1,{},test,{},{},0.1\n", i + 1, 1 - accuracies[i], accuracies[i]);
  std::ofstream(run / "best.h5") << "checkpoint";
}

TEST(BetterRun, IsNamedWithItsScore) {
  struct Run {
    const char* number;
    std::vector<double> accuracies;
    std::string more = {}, data = kData;
  };
  const std::string by_loss = ", best_by: loss";
  const struct {
    std::string name;
    std::vector<Run> runs;                                                   // beside 3, whose best is 0.8
    std::string expected;                                                    // "": nothing is said
    std::function<void(const fs::path& run)> harm = [](const fs::path&) {};  // to the first of them
  } kCases[] = {
      {"better", {{"1", {0.5, 0.9, 0.7}}}, "1 is better: its best accuracy is 0.9000, "},
      {"the best of two", {{"1", {0.9}}, {"2", {0.95}}}, "2 is better: its best accuracy is 0.9500, "},
      {"worse", {{"1", {0.5}}}, ""},
      {"equal", {{"1", {0.8}}}, ""},
      {"other settings", {{"1", {0.9}, ", seed: 5, optimizer: adam"}}, "1 is better"},
      {"other data", {{"1", {0.9}, "", "{glyphs: {train: 40, test: 30, batch: 20}}"}}, ""},
      {"another figure", {{"1", {0.9}, by_loss}}, ""},
      {"no checkpoint", {{"1", {0.9}}}, "", [](const fs::path& run) { fs::remove(run / "best.h5"); }},
      {"damaged", {{"1", {0.9}}}, "", [](const fs::path& run) { std::ofstream(run / "config.yaml") << "model: ["; }},
      {"not evaluated", {{"1", {0.1}}, {"3", {}}}, "3 was not evaluated yet; take it with --run "},
      {"by the loss", {{"1", {0.9}, by_loss}, {"3", {0.8}, by_loss}}, "1 is better: its best loss is 0.1000, "},
  };
  for (const auto& c : kCases) {
    const TempFolder root;
    write_run(root / "3", {0.6, 0.8});
    for (const Run& run : c.runs) write_run(root / run.number, run.accuracies, run.more, run.data);
    c.harm(root / c.runs[0].number);
    const std::string text = better_run_text(root / "3" / "best.h5");
    EXPECT_EQ(text.empty(), c.expected.empty()) << c.name << ": " << text;
    EXPECT_THAT(text, HasSubstr(c.expected)) << c.name;
  }
}

// Apart from the results, and only where nobody named a run.
TEST(BetterRun, IsTheHintOfCommandsThatTakeTheNewest) {
  const Workplace folder;
  folder.write("net.yaml",
               "model: [flatten, {linear: {out: 10}}]\nsteps: 30\nbackend: cpu\n"
               "data: {glyphs: {train: 600, test: 100, batch: 20}}\n");
  for (const char* rate : {"0.05", "1e-9"})
    ASSERT_EQ(folder.trainer(std::string("--config net.yaml --set schedule.constant.rate=") + rate).code, 0);
  EXPECT_THAT(folder.trainer("eval").output, HasSubstr("runs/net/1 is better: its best accuracy is "));
  EXPECT_THAT(folder.trainer("export net.onnx").output, HasSubstr("take it with --run runs/net/1"));
  for (const char* named : {"eval --run runs/net/2", "eval --checkpoint runs/net/2/best.h5"})
    EXPECT_THAT(folder.trainer(named).output, Not(HasSubstr("is better")));
}

}  // namespace
}  // namespace nixie
