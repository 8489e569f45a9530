// The trainer as a program: exit codes, what it prints, and runs that are killed.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

using namespace nixie::test;
using testing::HasSubstr;
using testing::MatchesRegex;

class TrainerProgram : public testing::Test {
 protected:
  TrainerProgram() { std::ofstream(folder_ / "net.yaml") << kRun; }

  /// Runs `trainer --config net.yaml ARGUMENTS` inside the test's folder.
  Ran run(const std::string& arguments) const {
    return run_program("trainer --config " + path("net.yaml") + " " + arguments);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  TempFolder folder_;
};

TEST_F(TrainerProgram, TrainsAndPrintsTheResultLast) {
  const Ran ran = run("--run " + path("run") + " --set metrics='[recall]'");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("backend cpu, "));
  EXPECT_THAT(ran.output, HasSubstr(" built for "));
  EXPECT_THAT(ran.output, HasSubstr("model sequential: 12762 parameters in 6 arrays"));
  const std::size_t last = ran.output.rfind('\n', ran.output.size() - 2) + 1;
  EXPECT_THAT(ran.output.substr(last),
              MatchesRegex("test accuracy [01]\\.[0-9]{4} loss [0-9]+\\.[0-9]{4} .50 samples.\n"));
  for (const char* file : {"config.yaml", "metrics.csv", "timing.csv", "last.h5", "best.h5"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / file)) << file;

  const Ran again = run("--run " + path("run"));
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.output, HasSubstr("already holds a run"));
  // A finished run that is resumed prints its result again, from its folder alone.
  const Ran resumed = run_program("trainer --resume --run " + path("run"));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr(ran.output.substr(last)));
}

TEST_F(TrainerProgram, ExitCodesSayWhatWentWrong) {
  std::ofstream(folder_ / "damaged.h5") << "no checkpoint";
  const struct {
    std::string arguments;
    int code;
    std::string expected;
  } kCases[] = {
      {"--set optimizer.adam.beta=1", 2, "--set optimizer.adam.beta=1: unknown key"},
      {"--sett x", 2, "--sett"},
      {"--set model=mlpp", 2, "did you mean \"mlp\"?"},
      {"--set backend=cuda --set threads=-1", 2, "threads is -1"},
      {"--set data.mnist.path=/nonexistent", 5, "/nonexistent"},
      {"--resume " + path("damaged.h5"), 6, "damaged.h5"},
      {"--run " + path("x") + " --set schedule.constant.rate=1e38 --set optimizer=sgd --set clip_norm=0", 7,
       "not finite"},
      {"--run /proc/nixie", 8, "/proc/nixie"},
      {"--resume --run " + path("nothing"), 2, "no folder"},
  };
  for (const auto& c : kCases) {
    const Ran ran = run(c.arguments);
    EXPECT_EQ(ran.code, c.code) << c.arguments << "\n" << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(c.expected)) << c.arguments;
  }
  EXPECT_EQ(run_program("trainer").code, 2);
  EXPECT_EQ(run_program("trainer --help").code, 0);
  EXPECT_THAT(run_program("trainer --list").output, HasSubstr("momentum: 0.9  # share of the last step kept"));
}

TEST_F(TrainerProgram, EveryProblemOfAFileIsPrinted) {
  std::ofstream(folder_ / "net.yaml") << "model: lenett\nepohcs: 3\ndata: {glyphs: {batch: 0}}\n";
  const Ran ran = run("");
  EXPECT_EQ(ran.code, 2);
  for (const char* line : {"net.yaml:1:8: unknown name \"lenett\"", "net.yaml:2:1: unknown key \"epohcs\"",
                           "net.yaml:3:24: data.glyphs.batch is 0"})
    EXPECT_THAT(ran.output, HasSubstr(line));
}

TEST_F(TrainerProgram, AFileThatCannotGrowIsAStorageFault) {
  // The limit (in blocks of 1024 bytes) lets the tables be written and no checkpoint.
  const Ran ran = run_program("trainer --config " + path("net.yaml") + " --run " + path("run"), "ulimit -f 8; ");
  EXPECT_EQ(ran.code, 8) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr(".h5"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "last.h5"));
}

/// Starts the trainer on its own, sends a signal after a while and gives its wait status.
int run_with_signal(const std::vector<std::string>& arguments, int signal, int after_ms) {
  std::vector<char*> argv;
  std::vector<std::string> words = {std::string(NIXIE_BINARY_DIR) + "/trainer"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!std::freopen("/dev/null", "w", stdout)) ::_exit(1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(TrainerProgram, ASignalSavesAndAResumeGoesOn) {
  const int status = run_with_signal(
      {"--config", path("net.yaml"), "--run", path("run"), "--set", "steps=0", "--set", "epochs=100000"}, SIGTERM,
      1500);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const std::int64_t step = std::get<std::int64_t>(load_checkpoint(folder_ / "run" / "last.h5").state.at("step"));
  EXPECT_GT(step, 0);
  const Ran ran =
      run("--resume --run " + path("run") + " --set steps=" + std::to_string(step + 5) + " --set epochs=100000");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("resumed after step " + std::to_string(step)));
}

// Killed over and over at arbitrary moments, the finished run equals one that was left alone.
TEST_F(TrainerProgram, KilledAtAnyMomentTheRunEndsTheSameLong) {
  std::ofstream(folder_ / "net.yaml", std::ios::app) << "save_every: 7\n";
  const std::string more = "--set steps=0 --set epochs=60 ";
  ASSERT_EQ(run(more + "--run " + path("whole")).code, 0);
  std::mt19937 random(std::random_device{}());
  int kills = 0;
  for (bool done = false; !done;) {
    std::vector<std::string> arguments = {"--config", path("net.yaml"), "--set", "steps=0",
                                          "--set",    "epochs=60",      "--run", path("broken")};
    if (std::filesystem::exists(folder_ / "broken")) arguments.push_back("--resume");
    const int status = run_with_signal(arguments, SIGKILL, std::uniform_int_distribution(20, 900)(random));
    done = WIFEXITED(status);
    ASSERT_TRUE(!done || WEXITSTATUS(status) == 0);
    ASSERT_LT(kills += !done, 200);
  }
  EXPECT_GT(kills, 0);
  expect_same_files(folder_ / "whole", folder_ / "broken", "after " + std::to_string(kills) + " kills");
}

}  // namespace
}  // namespace nixie
