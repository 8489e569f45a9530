// Runs whose folder is moved, removed or changed: each reads and writes its own files, or ends.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nixie/apps/trainer/report/run_curves.h"
#include "nixie/tests/apps/bearable_at_half.h"
#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

/// A run's folder, and another run that may take its path.
struct Places {
  fs::path run, other, moved;

  void move_away() const { fs::rename(run, moved), fs::rename(other, run); }
  void move_back() const { fs::rename(run, other), fs::rename(moved, run); }
};

/// All files by name.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files[entry.path().filename()] = text_of(entry.path());
  return files;
}

/// Moves the run's folder after step 7, once the checkpoint `last` is written, and back at the first step after the run
/// went back.
class MovesAtRollBack final : public Callback {
 public:
  MovesAtRollBack(Places places, std::int64_t last) : places_(std::move(places)), last_(last) {}
  void step_ends(Trainer&, std::int64_t step) override {
    const bool is_back = step <= std::exchange(before_, step);
    if (step == 7 && moves_++ == 0) {
      const fs::path last = places_.run / "last.h5";
      EXPECT_TRUE(wait_for([&] { return fs::exists(last) && saved(last) == last_; }));
      places_.move_away();
    } else if (is_back && moves_ > 0 && !std::exchange(is_home_, true)) {
      places_.move_back();
    }
  }
  bool is_home() const { return is_home_; }

 private:
  Places places_;
  std::int64_t last_, before_ = 0;
  int moves_ = 0;
  bool is_home_ = false;
};

// Another run, of the same configuration, is at its path meanwhile, with a checkpoint that fits.
TEST(RollBack, AMovedRunGoesBackToItsOwnCheckpoint) {
  for (const auto& [more, last] : {std::pair("save_every: 3\n", 6), std::pair("save_every: 5\n", 5)}) {
    const TrainConfig config = bearable_at_half(more);
    const TempFolder root;
    const Places places{root / "run", root / "other", root / "moved"};
    fs::create_directory(places.run);
    train_all(root / "whole", config);
    train_until(4, places.other, config);
    const auto before = files_in(places.other);
    const auto moves = std::make_shared<MovesAtRollBack>(places, last);
    EXPECT_TRUE(Trainer(config, {.run = places.run, .callbacks = {moves}}).train());
    EXPECT_TRUE(moves->is_home());
    expect_same_files(root / "whole", places.run, more);
    EXPECT_TRUE(files_in(places.other) == before) << more;
  }
}

/// Moves the run's folder back as the run begins, or after its first step.
class MovesBack final : public Callback {
 public:
  MovesBack(Places places, bool at_once) : places_(std::move(places)), at_once_(at_once) {}
  void train_begins(Trainer& trainer) override {
    if (at_once_) step_ends(trainer, 0);
  }
  void step_ends(Trainer&, std::int64_t) override {
    if (!std::exchange(is_home_, true)) places_.move_back();
  }

 private:
  Places places_;
  bool at_once_, is_home_ = false;
};

// From before a resume until its first step is done: checkpoints are loaded, tables are cut, config.yaml is written.
TEST(Resume, AMovedRunReadsItsOwnFiles) {
  const TrainConfig config = small_config("keep: 2\n");
  TrainConfig others = config;
  others.clip_norm = 0.1;  // other weights and rows
  for (const char* harmed : {"", "last.h5", "best.h5"}) {
    const TempFolder root;
    const Places places{root / "run", root / "other", root / "moved"};
    const bool begins_with_save = harmed == std::string("last.h5");  // which finds out that the folder was moved
    const auto train = [&](const TrainConfig& trained, const fs::path& run, std::int64_t steps) {
      train_until(steps, run, trained);
      if (*harmed) fs::remove(run / harmed);
    };
    for (const auto& folder : {root / "whole", places.run}) train(config, folder, 14);
    train(others, places.other, 12);
    const auto before = files_in(places.other);
    const auto resume = [&](const fs::path& run, const std::shared_ptr<Callback>& callback) {
      Trainer trainer(config, {.run = run, .callbacks = {callback}});
      if (run == places.run) places.move_away();
      trainer.resume();
      EXPECT_TRUE(trainer.train());
    };
    resume(root / "whole", std::make_shared<Callback>());
    resume(places.run, std::make_shared<MovesBack>(places, begins_with_save));
    expect_same_files(root / "whole", places.run, harmed);
    for (const char* file : {"metrics.jsonl", "step-20.h5", "step-23.h5"})
      EXPECT_TRUE(text_of(root / "whole" / file) == text_of(places.run / file)) << file << " without " << harmed;
    EXPECT_TRUE(files_in(places.other) == before) << harmed;
  }
}

// The program opens the folder first; here it then waits for a configuration to compare with.
TEST(Resume, ARunThatIsMovedBeforeItIsLockedIsRefused) {
  const TempFolder root;
  const Places places{root / "run", root / "other", root / "moved"};
  for (const auto& folder : {places.run, places.other}) train_until(14, folder, small_config());
  const auto before = files_in(places.run), others = files_in(places.other);
  const std::string pipe = (root / "net.yaml").string(), log = (root / "log").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Child child({"--run", places.run.string(), "--resume", "--config", pipe}, log);
  int end = -1;
  ASSERT_TRUE(wait_for([&] { return (end = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; })) << text_of(log);
  places.move_away();
  EXPECT_EQ(::write(end, kRun.data(), kRun.size()), static_cast<ssize_t>(kRun.size()));
  ::close(end);
  EXPECT_EQ(exit_code(child.wait()), 8);
  EXPECT_THAT(text_of(log), HasSubstr("run was moved, removed or replaced while"));
  EXPECT_TRUE(files_in(places.run) == others);
  EXPECT_TRUE(files_in(places.moved) == before);
}

// Whatever is at its path by then.
TEST(RunFolder, IsReadWhereverItIsMoved) {
  const TempFolder root;
  const fs::path run = root / "run";
  const TrainConfig mine = small_config("keep: 1\n"), others = small_config("ema: 0.5\n");
  train_all(run, mine);
  const Folder folder(run);
  const RunCurves curves = read_curves(run);
  fs::rename(run, root / "moved");
  train_all(run, others);
  fs::remove(run / "timing.csv");
  ASSERT_EQ(::mkfifo((run / "timing.csv").c_str(), 0600), 0);

  const RunCurves read = read_curves(folder);
  EXPECT_EQ(read.train_loss, curves.train_loss);
  EXPECT_EQ(read.seconds, curves.seconds);
  EXPECT_EQ(config_text(load_config(FilePlace(folder, "config.yaml"))), config_text(mine));
  EXPECT_EQ(config_text(as_saved({folder, "config.yaml"}, run_checkpoints(folder), {},
                                 [](const std::string& note) { ADD_FAILURE() << note; })),
            config_text(mine));
  EXPECT_NO_THROW(check_run_files(folder));
  EXPECT_EQ(kept_checkpoints(folder).size(), 1u);
  EXPECT_EQ(read_csv(FilePlace(folder, "metrics.csv")).rows.size(),
            read_csv(root / "moved" / "metrics.csv").rows.size());
  for (const FilePlace& file : kept_checkpoints(folder)) {
    EXPECT_EQ(file.path(), run / "step-23.h5") << "messages name what the user knows";
    EXPECT_EQ(load_checkpoint(file).config, config_text(mine));
  }
  EXPECT_FAULT(storage, "run was moved, removed or replaced while", RunLock{folder});

  fs::remove_all(run);
  fs::remove_all(root / "moved");
  EXPECT_NO_THROW(check_holds_no_run(folder));
  EXPECT_TRUE(read_curves(folder).train_loss.empty());
  EXPECT_FAULT(checkpoint, "run/last.h5 cannot be opened: No such file or directory; give the path of a checkpoint",
               load_checkpoint({folder, "last.h5"}));
}

/// The line that a run ends with after something was done to its folder, and its exit code.
Ran disturbed(const fs::path& folder, const std::function<void(const fs::path& run)>& disturb) {
  std::ofstream(folder / "net.yaml") << kRun;
  const fs::path run = folder / "run", log = folder / "log";
  fs::remove_all(run);
  Child child(
      {"--config", (folder / "net.yaml").string(), "--run", run.string(), "--set", "steps=0", "--set", "epochs=100000"},
      log.string());
  EXPECT_TRUE(wait_for([&] { return fs::exists(run / "last.h5"); }));
  disturb(run);
  const int code = exit_code(child.wait());
  return {code, text_of(log)};
}

TEST(Resume, ARunWhoseFolderWasTakenAwayEnds) {
  const TempFolder folder;
  const struct {
    std::function<void(const fs::path& run)> disturb;
    int code;
    const char* expected;
  } kCases[] = {
      {[](const fs::path& run) { fs::rename(run, run.string() + ".old"); }, 8,
       "run was moved, removed or replaced while"},
      {[](const fs::path& run) {
         fs::rename(run, run.string() + ".older");
         fs::create_directory(run);  // of another run
       },
       8, "run was moved, removed or replaced while"},
      {[](const fs::path& run) { fs::remove(run / "metrics.csv"); }, 8,
       "metrics.csv was removed or replaced while the run wrote to it"},
      {[](const fs::path& run) {
         const std::string text = text_of(run / "metrics.csv");
         fs::remove(run / "metrics.csv");
         std::ofstream(run / "metrics.csv") << text;  // as an editor does
       },
       8, "metrics.csv was removed or replaced while the run wrote to it"},
      {[](const fs::path& run) { fs::resize_file(run / "metrics.csv", 0); }, 8, "another program changed it"},
      {[](const fs::path& run) { std::ofstream(run / "timing.csv", std::ios::app) << "1,1,1,1\n"; }, 8,
       "another program changed it"},
  };
  for (const auto& c : kCases) expect_ran(disturbed(folder.path(), c.disturb), c.code, c.expected);
}

}  // namespace
}  // namespace nixie
