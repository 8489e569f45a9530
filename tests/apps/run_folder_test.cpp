// A run's folder and what goes into it besides checkpoints: tables that are cut back, the lock, progress and the log.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>

#include "nixie/apps/trainer/program/watchdog.h"
#include "nixie/apps/trainer/progress.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/trainer.h"
#include "nixie/tests/apps/printed.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

/// A table that goes on in a file.
struct OpenTable {
  OpenTable(const FilePlace& place, const std::string& header, std::int64_t step,
            std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max())
      : csv(changes, place, header, step, most_bytes) {
    changes.make();
    csv.open();
  }
  Replacements changes;
  CsvFile csv;
};

TEST(CsvFile, IsCutBackToAStep) {
  const std::string header = "epoch,step,loss", rows = "1,5,0.5\n1,10,0.4\n1,10,0.3\n2,15,0.2\n";
  const struct {
    std::string before;
    std::int64_t step;
    std::string after;
  } kCases[] = {
      {header + "\n" + rows, 10, header + "\n1,5,0.5\n1,10,0.4\n1,10,0.3\n"},
      {header + "\n" + rows, 0, header + "\n"},
      {header + "\n" + rows, 99, header + "\n" + rows},
      {header + "\n1,5,0.5\n1,10,0.", 99, header + "\n1,5,0.5\n"},  // torn by a kill
      {header + "\n1,5,0.5\njunk\n1,x,2\n", 99, header + "\n1,5,0.5\n"},
      {"", 99, header + "\n"},
  };
  const TempFolder folder;
  for (const auto& c : kCases) {
    std::ofstream(folder / "t.csv", std::ios::binary) << c.before;
    OpenTable(folder / "t.csv", header, c.step).csv.append("9,9,9");
    EXPECT_EQ(text_of(folder / "t.csv"), c.after + "9,9,9\n") << c.before;
  }
  const std::int64_t size = static_cast<std::int64_t>(header.size()) + 1;
  for (const auto& [most, after] : {std::pair(size + 20, "1,5,0.5\n1,10,0.4\n"),  // a row of step 10 came later
                                    std::pair(size + 17, "1,5,0.5\n1,10,0.4\n"),
                                    std::pair(size, "1,5,0.5\n"),  // a size too small costs no earlier row
                                    std::pair(std::int64_t{0}, "1,5,0.5\n")}) {
    std::ofstream(folder / "t.csv", std::ios::binary) << header << "\n" << rows;
    EXPECT_EQ(OpenTable(folder / "t.csv", header, 10, most).csv.bytes(), size + std::strlen(after)) << most;
    EXPECT_EQ(text_of(folder / "t.csv"), header + "\n" + after) << most;
  }
  std::ofstream(folder / "t.csv", std::ios::binary) << "step,other\n1,5\n";
  EXPECT_FAULT(usage, "has the columns \"step,other\"", OpenTable(folder / "t.csv", header, 99));
  EXPECT_EQ(text_of(folder / "t.csv"), "step,other\n1,5\n");
  std::ofstream(folder / "zeros.csv", std::ios::binary) << std::string(300, '\0') << "\n1,5,0.5\n";
  const std::string zeros = error_of(Fault::storage, [&] { OpenTable(folder / "zeros.csv", header, 99); });
  EXPECT_THAT(zeros, HasSubstr("zeros.csv: its first line holds bytes of 0x00"));
  EXPECT_LT(zeros.size(), folder.path().string().size() + 200);
  const OpenTable made(folder / "new.csv", header, 0);
  EXPECT_EQ(text_of(folder / "new.csv"), header + "\n");
  EXPECT_FAULT(storage, "t.csv", OpenTable(folder / "no" / "t.csv", header, 0));
}

// Reading the memory of a process at address 0 is an I/O error; the table must not be cut to what was read before it.
TEST(CsvFile, AFaultOfTheDiskCostsNoRows) {
  const TempFolder folder;
  fs::create_symlink("/proc/self/mem", folder / "t.csv");
  for (const std::function<void()>& read : {std::function<void()>([&] { OpenTable(folder / "t.csv", "a,step", 9); }),
                                            std::function<void()>([&] { read_csv(folder / "t.csv"); })})
    EXPECT_THAT(error_of(Fault::storage, read), HasSubstr("t.csv: cannot be read: Input/output error"));
  EXPECT_TRUE(fs::is_symlink(folder / "t.csv"));
}

TEST(AppendFile, SaysWhatToDo) {
  const TempFolder folder;
  EXPECT_FAULT(storage, EndsWith("No such file or directory; check the path and its permissions, and resume"),
               AppendFile(folder / "none"));
  EXPECT_FAULT(storage, EndsWith("; free some space, and resume"), AppendFile("/dev/full").append("x"));
  std::ofstream(folder / "file") << "rows";
  const AppendFile file(folder / "file");
  fs::permissions(folder.path(), fs::perms::none);
  std::string line;
  {
    const Unprivileged user;
    line = error_of(Fault::storage, [&] { file.check_place(); });
  }
  fs::permissions(folder.path(), fs::perms::owner_all);
  EXPECT_THAT(line, EndsWith("file: cannot be written: Permission denied; check the path and its permissions, "
                             "and resume"));
}

TEST(CsvFile, ARowIsThereAtOnce) {
  const TempFolder folder;
  OpenTable table(folder / "t.csv", "a,step", 0);
  table.csv.append("1,2");
  EXPECT_EQ(text_of(folder / "t.csv"), "a,step\n1,2\n");
  EXPECT_EQ(table.csv.bytes(), 11);
  EXPECT_EQ(OpenTable(folder / "t.csv", "a,step", 9).csv.take_before().rows.size(), 1u);
}

TEST(RunFolder, NumbersGoUpAndNothingIsOverwritten) {
  const TempFolder root;
  EXPECT_EQ(make_run_folder(root.path(), "net"), root.path() / "net" / "1");
  EXPECT_EQ(make_run_folder(root.path(), "net"), root.path() / "net" / "2");
  fs::create_directories(root.path() / "net" / "10");
  fs::create_directories(root.path() / "net" / "99x");
  EXPECT_EQ(make_run_folder(root.path(), "net"), root.path() / "net" / "11");
  EXPECT_EQ(newest_run_folder(root.path(), "net"), root.path() / "net" / "11");
  EXPECT_FAULT(usage, "other", newest_run_folder(root.path(), "other"));
}

TEST(RunFolder, IsClaimedOnce) {
  const TempFolder root;
  claim_run_folder(root / "a" / "b");
  EXPECT_TRUE(fs::is_directory(root.path() / "a" / "b"));
  claim_run_folder(root.path() / "a" / "b");  // still empty
  write_text(root.path() / "a" / "b" / "config.yaml", "x: 1\n");
  EXPECT_FAULT(usage, "--resume", claim_run_folder(root.path() / "a" / "b"));
  fs::rename(root.path() / "a" / "b" / "config.yaml", root.path() / "a" / "b" / "step-15.h5");
  EXPECT_FAULT(usage, "(step-15.h5)", claim_run_folder(root.path() / "a" / "b"));
  EXPECT_FAULT(storage, "/proc/nixie/run", claim_run_folder("/proc/nixie/run"));
  std::ofstream(root / "file") << "x";
  EXPECT_FAULT(storage, "File exists", claim_run_folder(root / "file"));
  fs::create_symlink("nowhere", root / "link");
  for (const char* name : {"link", "link/run", "link/a/run"})
    EXPECT_FAULT(storage,
                 testing::Eq((root / name).string() + ": cannot be made: " + (root / "link").string() +
                             " is a link to nowhere, which is not there; choose another with --run"),
                 claim_run_folder(root / name));
}

TEST(RunFolder, IsNotOverwrittenByATrainerThatWasNotResumed) {
  const TempFolder root;
  train_all(root.path(), small_config());
  const std::string rows = text_of(root / "metrics.csv");
  {
    Trainer again(small_config(), {.run = root.path()});
    EXPECT_FAULT(usage, " already holds a run (config.yaml); go on with it by ", again.train());
    EXPECT_EQ(text_of(root / "metrics.csv"), rows);
    again.resume();
    EXPECT_TRUE(again.train());
    EXPECT_TRUE(again.train()) << "its own run";
  }
  fs::remove(root / "last.h5");
  fs::remove(root / "best.h5");  // a run that was never saved
  Trainer begins(small_config(), {.run = root.path()});
  begins.resume();
  EXPECT_TRUE(begins.train());
  EXPECT_EQ(text_of(root / "metrics.csv"), rows);
}

TEST(RunFolder, IsLockedByOne) {
  const TempFolder root;
  {
    const RunLock lock(root.path());
    EXPECT_FAULT(usage, fmt::format("is in use by another trainer (pid {} on ", ::getpid()), RunLock{root.path()});
    EXPECT_FAULT(usage, "is in use", Trainer(small_config(), {.run = root.path()}));
    EXPECT_FAULT(usage, "is in use", check_free(root.path()));
  }
  EXPECT_NO_THROW(check_free(root.path()));
  RunLock again(root.path());
  again.renew();
  // A lock that was removed is taken anew, unless another run has the folder by now.
  fs::remove(root / ".lock");
  again.renew();
  EXPECT_FAULT(usage, "is in use", RunLock{root.path()});
  fs::remove(root / ".lock");
  EXPECT_FAULT(usage, "is in use by another trainer; wait", RunLock{root.path()}) << "as before";
  again.renew();
  {
    const TempFolder moved;
    const fs::path run = moved / "run", old = moved / "old";
    fs::create_directory(run);
    RunLock lock(run);
    fs::rename(run, old);
    fs::create_directory(run);
    const RunLock of_another(run);
    EXPECT_FAULT(storage, "run was moved, removed or replaced while", lock.renew());
    write_text({lock.folder(), "last.h5"}, "mine");
    keep_checkpoint({lock.folder(), "last.h5"}, 5, 1);
    EXPECT_EQ(text_of(old / "step-5.h5"), "mine");
    EXPECT_TRUE(kept_checkpoints(run).empty());
    EXPECT_FALSE(fs::exists(run / "last.h5"));
  }
  EXPECT_FAULT(storage, "No such file", RunLock{root / "none"});
  {
    const TempFolder above;
    const fs::path run = above / "run";
    fs::create_directory(run);
    RunLock lock(run);
    fs::permissions(above.path(), fs::perms::none);
    std::string line;
    {
      const Unprivileged user;
      line = error_of(Fault::storage, [&] { lock.renew(); });
    }
    fs::permissions(above.path(), fs::perms::owner_all);
    EXPECT_EQ(line, run.string() + ": cannot be reached: Permission denied; check the path and its permissions");
  }
  const Unprivileged user;
  EXPECT_FAULT(storage, ".lock: cannot be locked: Permission denied; check the path and its permissions",
               RunLock{root.path()});
}

// One that was killed is not the holder, and who only looks whether a folder is free holds it for a moment.
TEST(RunFolder, AHolderThatHasNoNameYetIsWaitedFor) {
  const TempFolder root;
  const std::string dead = "pid 4194305 on ";  // above Linux's largest
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  for (const std::string& written : {dead + host.data(), std::string()})
    for (const bool stays : {true, false}) {
      SCOPED_TRACE(fmt::format("'{}' {}", written, stays));
      std::ofstream(root / ".lock") << written;
      const int holder = ::open((root / ".lock").c_str(), O_RDWR);
      ASSERT_EQ(::flock(holder, LOCK_EX), 0);
      std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const std::string name = "pid 1 on " + std::string(host.data());
        if (!stays) return std::ignore = ::close(holder), void();
        EXPECT_EQ(::pwrite(holder, name.data(), name.size(), 0), std::ssize(name));
        EXPECT_EQ(::ftruncate(holder, std::ssize(name)), 0);
      });
      if (stays)
        EXPECT_FAULT(usage, "is in use by another trainer (pid 1 on ", RunLock{root.path()});
      else
        EXPECT_NO_THROW(RunLock{root.path()});
      later.join();
      if (stays) ::close(holder);
    }
  // Nor does a look leave its name.
  std::ofstream(root / ".lock") << "pid 7 on a host";
  check_free(root.path());
  EXPECT_EQ(text_of(root / ".lock"), "pid 7 on a host");
}

// They would be waited for, for ever.
TEST(RunFolder, PipesAndFoldersInPlaceOfFilesAreRefused) {
  for (const char* name : {"log.txt", "metrics.csv", "timing.csv", "metrics.jsonl", "config.yaml", "last.h5"}) {
    const TempFolder root;
    ASSERT_EQ(::mkfifo((root / name).c_str(), 0600), 0);
    EXPECT_FAULT(storage, std::string(name) + " is no regular file", Trainer(small_config(), {.run = root.path()}));
    fs::remove(root / name);
    fs::create_directory(root / name);
    EXPECT_FAULT(storage, "is no regular file", check_run_files(root.path()));
  }
}

TEST(Watchdog, TellsOncePerPauseWhatTheThreadsDo) {
  using namespace std::chrono_literals;
  std::mutex mutex;
  std::vector<std::string> reports;
  Watchdog watchdog(
      [&](const std::string& text) {
        const std::lock_guard lock(mutex);
        reports.push_back(text);
      },
      100ms);
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return reports.size();
  };
  const auto wait_until_told = [&](std::size_t times) {
    for (int wait = 0; wait < 200 && count() < times; ++wait) std::this_thread::sleep_for(20ms);
    std::this_thread::sleep_for(200ms);
    ASSERT_EQ(count(), times);
  };
  watchdog.enter("waits for a batch of the loader");
  wait_until_told(1);  // nothing is known of the usual time before the first step
  EXPECT_THAT(reports[0], ContainsRegex("^no first step for .*: the run waits for a batch of the loader\n"));
  for (int i = 0; i < 5; ++i) watchdog.mark();
  wait_until_told(2);
  EXPECT_THAT(reports[1], HasParts(ContainsRegex("^no step for .*: the run waits for a batch of the loader\n  thread "),
                                   "(watchdog 0) runs", fmt::format("thread {} (", ::getpid())));
  watchdog.mark();
  wait_until_told(3);
}

// Its lines go to files, too.
TEST(Watchdog, AFailureToTellReachesTheRun) {
  using namespace std::chrono_literals;
  std::atomic<bool> is_told = false;
  Watchdog watchdog(
      [&](const std::string&) {
        is_told = true;
        fail(Fault::storage, "no space");
      },
      20ms);
  for (int i = 0; i < 5; ++i) watchdog.mark();
  for (int wait = 0; wait < 500 && !is_told; ++wait) std::this_thread::sleep_for(10ms);
  std::string failure;
  for (int wait = 0; wait < 500 && failure.empty(); ++wait, std::this_thread::sleep_for(1ms)) try {
      watchdog.mark();
    } catch (const Error& error) {
      failure = error.what();
    }
  EXPECT_EQ(failure, "no space");
}

class Refuses final : public Callback {
  void epoch_begins(Trainer&, std::int64_t) override { fail(Fault::usage, "enough"); }
};

TEST(Progress, TimesAreReadable) {
  const struct {
    double seconds;
    std::string text;
  } kCases[] = {{0, "0:00"}, {7.9, "0:07"}, {754, "12:34"}, {3723, "1:02:03"}, {360000, "100:00:00"}, {-5, "0:00"}};
  for (const auto& c : kCases) EXPECT_EQ(clock_text(c.seconds), c.text);
}

TEST(Progress, PlainLinesWhereThereIsNoTerminal) {
  const Printed out;
  Progress progress(out.file());
  progress.start(100, 300, 150, 32);
  progress.step(119);
  progress.interval({.epoch = 0, .step = 120, .loss = 0.51234, .accuracy = 0.75, .rate = 0.01});
  progress.line("hello");
  const std::string text = out.text();
  EXPECT_TRUE(text.starts_with("epoch 1/2 step 120/300 loss 0.5123 accuracy 0.7500 rate 0.01 ")) << text;
  EXPECT_THAT(text, HasSubstr(" images/s data 0 % ETA 0:00\nhello\n"));  // 20 steps in no time
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(RunLog, HoldsEachLineWithItsTime) {
  const TempFolder folder;
  const std::string time = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} ";
  {
    RunLog log;
    log.add("before\nthe folder");
    log.open(folder / "log.txt");
    log.open(folder / "log.txt");  // each part of a run asks for it
    log.add("after");
    log.sync();
  }
  RunLog resumed;
  resumed.open(folder / "log.txt");
  resumed.add("again");
  EXPECT_THAT(text_of(folder / "log.txt"),
              testing::MatchesRegex(fmt::format("{0}before\n{0}the folder\n{0}after\n{0}again\n", time)));
  RunLog closed;
  closed.add("lost");
  closed.close();
  closed.open(folder / "closed");
  EXPECT_EQ(text_of(folder / "closed"), "");
  EXPECT_FAULT(storage, "/none/log.txt", RunLog().open("/none/log.txt"));
}

// The lines that a terminal would have shown, and why a run ended.
TEST(RunLog, IsWrittenByRuns) {
  const TempFolder folder;
  TrainConfig config = parse_config(
      "{model: [flatten, {linear: {out: 10}}], data: {glyphs: {train: 40, test: 20, batch: 20}}, epochs: 1, "
      "log_every: 1, backend: cpu, threads: 1}",
      "test");
  {
    Trainer trainer(config, {.run = folder.path()});
    trainer.say("hello");
    trainer.train();
  }
  const std::string log = text_of(folder / "log.txt");
  EXPECT_THAT(
      log, HasParts(" hello\n", " epoch 1/1 step 1/2 loss ", " epoch 1/1 step 2/2 loss ", " epoch 1 test accuracy "));
  config.epochs = 2;
  Trainer trainer(config, {.run = folder.path(), .callbacks = {std::make_shared<Refuses>()}});
  trainer.resume_last({"epochs"});
  EXPECT_ANY_THROW(trainer.train());
  EXPECT_TRUE(text_of(folder / "log.txt").starts_with(log)) << "a resumed run goes on in it";
  EXPECT_THAT(text_of(folder / "log.txt").substr(log.size()), ContainsRegex("resumed after step 2\n.* enough\n$"));
}

}  // namespace
}  // namespace nixie
