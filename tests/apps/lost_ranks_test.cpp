// Jobs of several ranks of which one is killed, stopped or asked to stop.
#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/ranks_run.h"

namespace nixie {
namespace {

/// The processes of the job whose command line holds the text.
std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    std::string line{std::istreambuf_iterator<char>(file), {}};
    const std::string program = line.substr(0, line.find('\0'));
    if (program.ends_with("/trainer") && line.find(text) != std::string::npos)
      found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

class LostRanks : public Ranks {
 protected:
  /// A run that does not end by itself, once it has saved. A rank of which nothing is heard for 2 s is lost.
  void begin(int ranks, const std::string& name) {
    job_ = std::thread([this, ranks, name] {
      ran_ = run_program(fmt::format("trainer --config {} --run {} --set epochs=100000 --set evaluate_every=50",
                                     path("net.yaml"), path(name)),
                         "NIXIE_SILENCE=2 " + mpirun(ranks));
    });
    ASSERT_TRUE(wait_for([&] { return fs::exists(folder_ / name / "last.h5"); }));
  }
  Ran end() {
    job_.join();
    return ran_;
  }

 private:
  std::thread job_;
  Ran ran_;
};

// Killed, mpirun names it; stopped, the rank before it does.
TEST_F(LostRanks, EndTheJobAndAreNamed) {
  const struct {
    int signal, code;
    const char* line;
  } rows[] = {{SIGKILL, 137, "mpirun noticed that process rank [0-2] with PID .* on node .* exited on signal 9"},
              {SIGSTOP, 3, "rank [0-2] of 3 on .* gave no sign of life for 2 s: its process is stopped, or its "}};
  for (const auto& row : rows) {
    const std::string name = std::to_string(row.signal);
    begin(3, name);
    const std::vector<pid_t> ranks = processes_with(path(name));
    ASSERT_EQ(ranks.size(), 3u);
    const auto begun = std::chrono::steady_clock::now();
    ::kill(ranks[1], row.signal);
    const Ran ran = end();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
    expect_ran(ran, row.code, ContainsRegex(row.line));
    EXPECT_NO_THROW(last(name));
    EXPECT_TRUE(wait_for([&] { return processes_with(path(name)).empty(); }));
  }
}

// A run is disturbed and resumed until it ends, again and again: with the same files as one that was left alone.
TEST_F(LostRanks, AtRandomMomentsCostNothingLong) {
  constexpr int kSignals = 100, kRanks = 3;
  const std::string set = "--set evaluate_every=50 --set epochs=1000";
  ASSERT_EQ(train(kRanks, "whole", set).code, 0);
  std::mt19937 random(1);
  std::map<int, int> sent;
  int ended = 0, unheard = 0;
  double longest = 0;
  for (int signals = 0, run = 0; signals < kSignals;) {
    const std::string name = fmt::format("run{}", run);
    Ran ran;
    const bool goes_on = fs::exists(folder_ / name / "config.yaml");
    std::thread job([&] {
      const std::string what = goes_on ? fmt::format("--run {} --resume", path(name))
                                       : fmt::format("--config {} --run {} {}", path("net.yaml"), path(name), set);
      ran = run_program("trainer " + what, "NIXIE_SILENCE=2 " + mpirun(kRanks));
    });
    sleep_ms(std::uniform_int_distribution(700, 2500)(random));
    const std::vector<pid_t> ranks = processes_with(path(name));
    const int signal = signals % 2 == 0 ? SIGKILL : SIGSTOP;
    const auto begun = std::chrono::steady_clock::now();
    if (ranks.size() == kRanks) ::kill(ranks[random() % kRanks], signal);
    job.join();
    if (ran.code == 0) {
      ++ended, ++run;
      expect_same_files(folder_ / "whole", folder_ / name, name);
      continue;
    }
    ASSERT_EQ(ranks.size(), static_cast<std::size_t>(kRanks)) << ran.output;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    EXPECT_LT(seconds, 10) << ran.output;
    longest = std::max(longest, seconds);
    ++signals, ++sent[signal];
    unheard += !testing::Matches(ContainsRegex("rank [0-2] (of 3 on|with PID)"))(ran.output);
    EXPECT_TRUE(wait_for([&] { return processes_with(path(name)).empty(); }));
  }
  EXPECT_EQ(unheard, 0);
  fmt::print("{} ranks killed, {} stopped; every job ended, in {:.1f} s at most; {} runs ended with the same files\n",
             sent[SIGKILL], sent[SIGSTOP], longest, ended);
}

// Whichever rank the signal reaches: all stop after the same step, and the first one saves.
TEST_F(LostRanks, ASignalSavesAndEndsAll) {
  begin(2, "stopped");
  const std::vector<pid_t> ranks = processes_with(path("stopped"));
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(*std::max_element(ranks.begin(), ranks.end()), SIGTERM);
  expect_ran(end(), 130, "stopped after step ");
  EXPECT_NO_THROW(last("stopped"));
}

}  // namespace
}  // namespace nixie
