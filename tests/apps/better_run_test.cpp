// Which run a command hints at that takes the newest one.
#include "nixie/apps/trainer/commands/chosen_checkpoint.h"

#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

/// A run's folder with evaluations of these accuracies, whose losses are 1 minus them.
void write_run(const fs::path& run, const std::vector<double>& accuracies, const std::string& more = "",
               const std::string& data = "{glyphs: {train: 40, test: 20, batch: 20}}") {
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
  const std::string other = "{glyphs: {train: 40, test: 30, batch: 20}}";
  const struct {
    std::string name;
    std::function<void(const fs::path& root)> write;  // beside 3, whose best is 0.8
    std::string expected;                             // "": nothing is said
  } kCases[] = {
      {"better",
       [](const fs::path& root) {
         write_run(root / "1", {0.5, 0.9, 0.7});
       },
       "1 is better: its best accuracy is 0.9000, "},
      {"the best of two", [](const fs::path& root) { write_run(root / "1", {0.9}), write_run(root / "2", {0.95}); },
       "2 is better: its best accuracy is 0.9500, "},
      {"worse", [](const fs::path& root) { write_run(root / "1", {0.5}); }, ""},
      {"equal", [](const fs::path& root) { write_run(root / "1", {0.8}); }, ""},
      {"other settings", [](const fs::path& root) { write_run(root / "1", {0.9}, ", seed: 5, optimizer: adam"); },
       "1 is better"},
      {"other data", [&](const fs::path& root) { write_run(root / "1", {0.9}, "", other); }, ""},
      {"another figure", [](const fs::path& root) { write_run(root / "1", {0.9}, ", best_by: loss"); }, ""},
      {"no checkpoint",
       [](const fs::path& root) {
         write_run(root / "1", {0.9});
         fs::remove(root / "1" / "best.h5");
       },
       ""},
      {"damaged",
       [](const fs::path& root) {
         write_run(root / "1", {0.9});
         std::ofstream(root / "1" / "config.yaml") << "model: [";
       },
       ""},
      {"not evaluated",
       [](const fs::path& root) {
         write_run(root / "1", {0.1});
         write_run(root / "3", {});
       },
       "3 was not evaluated yet; take it with --run "},
      {"by the loss",
       [](const fs::path& root) {
         write_run(root / "1", {0.9}, ", best_by: loss");
         write_run(root / "3", {0.8}, ", best_by: loss");
       },
       "1 is better: its best loss is 0.1000, "},
  };
  for (const auto& c : kCases) {
    const TempFolder root;
    write_run(root / "3", {0.6, 0.8});
    c.write(root.path());
    const std::string text = better_run_text(root / "3" / "best.h5");
    EXPECT_EQ(text.empty(), c.expected.empty()) << c.name << ": " << text;
    EXPECT_THAT(text, HasSubstr(c.expected)) << c.name;
  }
}

// Apart from the results, and only where nobody named a run.
TEST(BetterRun, IsTheHintOfCommandsThatTakeTheNewest) {
  const TempFolder folder;
  std::ofstream(folder / "net.yaml") << "model: [flatten, {linear: {out: 10}}]\nsteps: 30\nbackend: cpu\n"
                                     << "data: {glyphs: {train: 600, test: 100, batch: 20}}\n";
  const std::string in_folder = "cd " + folder.path().string() + " && ";
  for (const char* rate : {"0.05", "1e-9"})
    ASSERT_EQ(
        run_program(std::string("trainer --config net.yaml --set schedule.constant.rate=") + rate, in_folder).code, 0);
  EXPECT_THAT(run_program("trainer eval", in_folder).output, HasSubstr("runs/net/1 is better: its best accuracy is "));
  EXPECT_THAT(run_program("trainer export net.onnx", in_folder).output, HasSubstr("take it with --run runs/net/1"));
  for (const char* named : {"trainer eval --run runs/net/2", "trainer eval --checkpoint runs/net/2/best.h5"})
    EXPECT_THAT(run_program(named, in_folder).output, Not(HasSubstr("is better")));
}

}  // namespace
}  // namespace nixie
