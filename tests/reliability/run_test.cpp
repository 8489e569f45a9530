// A training run against kills, failing system calls and full disks: no checkpoint is lost, no run ends otherwise.
#include <sys/mount.h>

#include <cerrno>

#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

const std::string kInterrupted = std::to_string(EINTR);

class Reliability : public testing::Test {
 protected:
  Reliability() {
    std::ofstream(file("net.yaml")) << kRun << "save_every: 7\nkeep: 2\n";
    EXPECT_EQ(run(folder_ / "whole"), 0);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// Trains in a folder from the start, or goes on with what it holds; the exit code.
  int run(const fs::path& run, const std::map<std::string, std::string>& environment = {}) const {
    return exit_code(Child(arguments(run), file("log"), environment).wait());
  }

  /// The same arguments for every run: config.yaml, of which checkpoints hold a copy, then has the same text.
  std::vector<std::string> arguments(const fs::path& run) const {
    std::vector<std::string> arguments = {"--config", file("net.yaml"),   "--set", "threads=1",
                                          "--set",    "loader.threads=1", "--run", run.string()};
    if (fs::exists(run)) arguments.push_back("--resume");
    return arguments;
  }

  std::map<std::string, std::string> fault(const fs::path& run, long at, const std::string& kind) const {
    return {{"LD_PRELOAD", std::string(NIXIE_BINARY_DIR) + "/libnixie_faults.so"},
            {"NIXIE_FAULT_FOLDER", run.string()},
            {"NIXIE_FAULT_AT", std::to_string(at)},
            {"NIXIE_FAULT_KIND", kind},
            {"NIXIE_FAULT_COUNT", file("count")}};
  }

  /// How many calls of an undisturbed run change its folder.
  long calls() const {
    EXPECT_EQ(run(folder_ / "counted", fault(folder_ / "counted", 0, "none")), 0);
    return std::stol(text_of(file("count")));
  }

  /// Whatever was done to the folder: its checkpoints are whole, and an undisturbed program ends the run as if nothing
  /// had been.
  void expect_recovery(const fs::path& run_folder, const std::string& what) const {
    for (const char* name : {"last.h5", "best.h5"})
      if (fs::exists(run_folder / name)) {
        EXPECT_NO_THROW(verify_checkpoint(run_folder / name)) << name << " " << what;
      }
    ASSERT_EQ(run(run_folder), 0) << what << text_of(file("log"));
    expect_same_files(folder_ / "whole", run_folder, what);
    const auto kept = kept_checkpoints(run_folder), wanted = kept_checkpoints(folder_ / "whole");
    EXPECT_EQ(kept.size(), wanted.size()) << what;
    for (const auto& file : wanted)
      EXPECT_TRUE(text_of(file.path()) == text_of(run_folder / file.name())) << file.name() << " differs " << what;
    for (const auto& entry : fs::directory_iterator(run_folder))
      EXPECT_THAT(entry.path().string(), Not(HasSubstr(".tmp."))) << entry.path() << " " << what;
    fs::remove_all(run_folder);
  }

  /// Kills or fails one call in each of about `points` runs.
  void disturb(const std::vector<std::string>& kinds, long points) const {
    const long all = calls(), step = std::max(1L, all * static_cast<long>(kinds.size()) / points);
    std::map<int, int> codes;
    long turn = 0;
    for (const std::string& kind : kinds)
      for (long at = 1 + turn++ % step; at <= all; at += step) {
        const fs::path run_folder = folder_ / "broken";
        const std::string what = fmt::format("{} at call {} of {}", kind, at, all);
        const int code = run(run_folder, fault(run_folder, at, kind));
        ++codes[code];
        if (kind == "kill")
          EXPECT_EQ(code, 128 + SIGKILL) << what;
        else if (kind == "short" || kind == kInterrupted)
          EXPECT_EQ(code, 0) << what << text_of(file("log"));
        else
          EXPECT_TRUE(code == 8 || code == 0) << what << ": exit " << code << "\n" << text_of(file("log"));
        if (code == 8) {
          EXPECT_THAT(text_of(file("log")), HasSubstr(std::strerror(std::stoi(kind)))) << what;
        }
        expect_recovery(run_folder, what);
      }
    std::string counted;
    for (const auto& [code, count] : codes) counted += fmt::format(" {} runs ended with {};", count, code);
    std::printf("%ld calls change a run's folder;%s all recovered\n", all, counted.c_str());
  }

  /// Fails one reading call, or one that asks about a file, in each of about `points` resumed runs, each of a run that
  /// was killed half way.
  void disturb_reads(const std::vector<std::string>& kinds, long points, const std::string& which = "reads") const {
    const fs::path half = folder_ / "half", broken = folder_ / "broken";
    EXPECT_EQ(run(half, fault(half, calls() / 2, "kill")), 128 + SIGKILL);
    const auto resumed = [&](long at, const std::string& kind) {
      fs::copy(half, broken, fs::copy_options::recursive);
      auto environment = fault(broken, at, kind);
      environment["NIXIE_FAULT_CALLS"] = which;
      return run(broken, environment);
    };
    EXPECT_EQ(resumed(0, "none"), 0);
    const long all = std::stol(text_of(file("count")));
    expect_recovery(broken, "undisturbed");
    const long step = std::max(1L, all * static_cast<long>(kinds.size()) / points);
    std::map<int, int> codes;
    long turn = 0;
    for (const std::string& kind : kinds)
      for (long at = 1 + turn++ % step; at <= all; at += step) {
        const std::string what = fmt::format("{} at {} {} of {}", kind, which, at, all);
        const int code = resumed(at, kind);
        ++codes[code];
        EXPECT_TRUE(code == 0 || (kind != "short" && kind != kInterrupted && code < 128))
            << what << ": " << code << text_of(file("log"));
        EXPECT_THAT(text_of(file("log")), Not(HasSubstr("in use"))) << what;
        expect_recovery(broken, what);
      }
    std::string counted;
    for (const auto& [code, count] : codes) counted += fmt::format(" {} runs ended with {};", count, code);
    std::printf("%ld %s of a resumed run's folder;%s all recovered\n", all, which.c_str(), counted.c_str());
  }

  /// Kills a resume of the finished run at each of about `points` calls, which loses no kept checkpoint even until the
  /// next one.
  void kill_resumed(long points) const {
    const fs::path broken = folder_ / "broken";
    const auto resumed = [&](long at, const std::string& kind) {
      fs::copy(folder_ / "whole", broken, fs::copy_options::recursive);
      return run(broken, fault(broken, at, kind));
    };
    EXPECT_EQ(resumed(0, "none"), 0);
    const long all = std::stol(text_of(file("count")));
    expect_recovery(broken, "undisturbed");
    for (long at = 1; at <= all; at += std::max(1L, all / points)) {
      const std::string what = fmt::format("kill at call {} of {}", at, all);
      EXPECT_EQ(resumed(at, "kill"), 128 + SIGKILL) << what;
      EXPECT_EQ(kept_checkpoints(broken).size(), kept_checkpoints(folder_ / "whole").size()) << what;
      for (const auto& kept : kept_checkpoints(broken)) EXPECT_NO_THROW(verify_checkpoint(kept)) << kept.name() << what;
      expect_recovery(broken, what);
    }
    std::printf("%ld calls change a finished run's folder that is resumed; all recovered\n", all);
  }

  /// Kills a resume with another optimizer at each of about `points` calls: a resume without the change goes on.
  void kill_changed(long points) const {
    const fs::path broken = folder_ / "broken";
    const std::vector<std::string> resume = {"--run", broken.string(), "--resume"};
    std::vector<std::string> changed = resume;
    for (const char* set : {"optimizer.adam.weight_decay=0.01", "epochs=4", "steps=32"})
      changed.insert(changed.end(), {"--set", set});
    const auto resumed = [&](long at, const std::string& kind) {
      fs::copy(folder_ / "whole", broken, fs::copy_options::recursive);
      return exit_code(Child(changed, file("log"), fault(broken, at, kind)).wait());
    };
    EXPECT_EQ(resumed(0, "none"), 0);
    const long all = std::stol(text_of(file("count")));
    fs::remove_all(broken);
    for (long at = 1; at <= all; at += std::max(1L, all / points)) {
      const std::string what = fmt::format("kill at call {} of {}", at, all);
      EXPECT_EQ(resumed(at, "kill"), 128 + SIGKILL) << what;
      ASSERT_EQ(exit_code(Child(resume, file("log")).wait()), 0) << what << text_of(file("log"));
      EXPECT_EQ(text_of(broken / "config.yaml"), load_checkpoint(broken / "last.h5").config) << what;
      fs::remove_all(broken);
    }
    std::printf("%ld calls change the folder of a run that is resumed with a change; all recovered\n", all);
  }

  /// Trains on a disk of each size, which then gets room.
  void fill_disks(int sizes) const {
    const fs::path disk = folder_ / "disk";
    fs::create_directories(disk);
    int full = 0;
    for (int i = 0; i < sizes; ++i) {
      const int kilobytes = 4 + i * 1024 / sizes;
      const std::string size = fmt::format("size={}k", kilobytes);
      if (::mount("none", disk.c_str(), "tmpfs", 0, size.c_str()) != 0) GTEST_SKIP() << "may not mount a small disk";
      const int code = run(disk / "run");
      EXPECT_TRUE(code == 8 || code == 0) << kilobytes << " KiB: exit " << code;
      full += code == 8;
      EXPECT_EQ(::mount("none", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
      expect_recovery(disk / "run", fmt::format("on a disk of {} KiB", kilobytes));
      ::umount(disk.c_str());
    }
    EXPECT_GT(full, 0);
    std::printf("%d disks, %d of them too small; all recovered\n", sizes, full);
  }

  TempFolder folder_;
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which must be preloaded first

TEST_F(Reliability, KilledAtACallTheRunGoesOn) { disturb({"kill"}, 8); }
TEST_F(Reliability, KilledAtEveryCallTheRunGoesOnLong) { disturb({"kill"}, 1'000'000); }

TEST_F(Reliability, AResumeKilledAtACallLosesNoKeptCheckpoint) { kill_resumed(6); }
TEST_F(Reliability, AResumeKilledAtEveryCallLosesNoKeptCheckpointLong) { kill_resumed(1'000'000); }

TEST_F(Reliability, AChangeKilledAtACallStopsNoResume) { kill_changed(12); }
TEST_F(Reliability, AChangeKilledAtEveryCallStopsNoResumeLong) { kill_changed(1'000'000); }

// A good file that cannot be read for a moment is no damaged one, in whose place an older one would be taken.
TEST_F(Reliability, ACheckpointThatTheSystemCannotReadStays) {
  const fs::path run_folder = folder_ / "broken";
  for (const int error : {EIO, EMFILE, ENOMEM})
    for (const long at : {1, 2, 4, 6, 8}) {
      const std::string what = fmt::format("{} at read {}", std::strerror(error), at);
      fs::copy(folder_ / "whole", run_folder, fs::copy_options::recursive);
      auto environment = fault(run_folder / "last.h5", at, std::to_string(error));
      environment["NIXIE_FAULT_CALLS"] = "reads";
      const int code = run(run_folder, environment);
      const int refused = error == ENOMEM ? 4 : 8;  // want of memory, a fault of storage
      EXPECT_TRUE(code == refused || code == 0) << what << ": " << code << text_of(file("log"));
      EXPECT_TRUE(text_of(run_folder / "last.h5") == text_of(folder_ / "whole" / "last.h5")) << what;
      if (code == 0) {
        EXPECT_THAT(text_of(file("log")), Not(HasSubstr("last.h5"))) << what;
      }
      expect_recovery(run_folder, what);
    }
}

const std::vector<std::string> kErrors = {std::to_string(ENOSPC), std::to_string(EIO), std::to_string(EMFILE), "short",
                                          kInterrupted};
TEST_F(Reliability, AFailingCallEndsTheRunAndLosesNothing) { disturb(kErrors, 12); }
TEST_F(Reliability, EveryFailingCallEndsTheRunAndLosesNothingLong) { disturb(kErrors, 1'000'000); }

TEST_F(Reliability, AFailingReadLosesNothing) { disturb_reads({std::to_string(EIO), "short", kInterrupted}, 12); }
TEST_F(Reliability, EveryFailingReadLosesNothingLong) {
  disturb_reads({std::to_string(EIO), "short", kInterrupted}, 1'000'000);
}

// The contents of the folder are then not known: no other trainer, no other file.
TEST_F(Reliability, AFailingLookLosesNothing) { disturb_reads({std::to_string(EIO)}, 12, "looks"); }
TEST_F(Reliability, EveryFailingLookLosesNothingLong) { disturb_reads({std::to_string(EIO)}, 1'000'000, "looks"); }

#endif

TEST_F(Reliability, KilledAtRandomTheRunGoesOnLong) {
  std::mt19937 random(std::random_device{}());
  int kills = 0, runs = 0;
  while (kills < 1000) {
    const fs::path run_folder = folder_ / "broken";
    for (bool done = false; !done && kills < 1000;) {
      Child child(arguments(run_folder));
      sleep_ms(std::uniform_int_distribution(5, 250)(random));
      child.send(SIGKILL);
      done = exit_code(child.wait()) == 0;
      kills += !done;
    }
    ++runs;
    expect_recovery(run_folder, fmt::format("after {} kills", kills));
  }
  std::printf("%d kills in %d runs, all recovered\n", kills, runs);
}

TEST_F(Reliability, AFullDiskEndsTheRunAndLosesNothing) { fill_disks(6); }
TEST_F(Reliability, AFullDiskOfAnySizeEndsTheRunAndLosesNothingLong) { fill_disks(64); }

}  // namespace
}  // namespace nixie
