// Runs of several ranks under mpirun, against the same run by one process; skipped where Open MPI is missing.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <random>

#include "nixie/models/io/checkpoint.h"
#include "nixie/tests/apps/bearable_at_half.h"
#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/ranks.h"

namespace nixie {
namespace {

using namespace nixie::test;
using testing::HasSubstr;

// 60 steps; the last batch of an evaluation is 2 samples of 12: some ranks have none of it.
const std::string kNet = R"(
model: [flatten, {linear: {out: 16}}, relu, {dropout: {rate: 0.3}}, {linear: {out: 10}}]
data: {glyphs: {train: 240, test: 50, batch: 12}}
optimizer: {sgd: {momentum: 0.9}}
schedule: {constant: {rate: 0.05}}
clip_norm: 1
ema: 0.9
epochs: 3
seed: 7
backend: cpu
threads: 1
log_every: 5
)";

Checkpoint last_of(const std::filesystem::path& run) { return load_checkpoint(run / "last.h5", {}); }

/// The largest difference of the weights, and of their averages, of two runs.
double difference_of(const std::filesystem::path& a, const std::filesystem::path& b) {
  double most = 0;
  const Checkpoint x = last_of(a), y = last_of(b);
  for (const auto& [arrays, others] : {std::pair(&x.model, &y.model), std::pair(&x.ema, &y.ema)})
    for (const auto& [name, array] : *arrays) {
      const auto p = array.to_vector<double>(), q = others->at(name).to_vector<double>();
      for (std::size_t i = 0; i < p.size(); ++i) most = std::max(most, std::abs(p[i] - q[i]));
    }
  return most;
}

/// Trains on ranks that are threads: the first one's files are in the folder. Without a size: without ranks. Goes on
/// with what is in the folder, and stops after a step if one is given.
Evaluation train_in_threads(const std::filesystem::path& run, const TrainConfig& config, int size,
                            std::int64_t last = 0) {
  Evaluation result;
  const auto train = [&](const World& world, Backend& backend) {
    Trainer trainer(config, {.run = world.is_first() ? run : "",
                             .backend = std::shared_ptr<Backend>(std::shared_ptr<void>(), &backend),
                             .world = world});
    if (world.is_first() && std::filesystem::exists(run / "last.h5")) trainer.resume();
    EXPECT_EQ(trainer.train([&] { return world.is_first() && trainer.step() == last; }), last == 0);
    const Evaluation own = trainer.evaluate();
    if (world.is_first()) result = own;
  };
  std::filesystem::create_directories(run);
  size == 0 ? train({}, *make_cpu_backend(1)) : on_ranks(size, train);
  return result;
}

// Shuffling, dropout, clipping, averages, losses and evaluations are those of the whole batch; sums round otherwise.
TEST(RanksInOneProcess, TrainAsOneDoes) {
  const TempFolder folder;
  const struct {
    const char* what;
    std::vector<std::string> changes;
    double allowed = 2e-5;
  } rows[] = {
      {"plain", {}},
      {"parts", {"accumulate=2"}},
      {"mixing", {"mixing.mixup=0.4"}},
      {"weights", {"loss={cross_entropy: {class_weights: [1, 2, 0, 1, 1, 3, 1, 1, 1, 1]}}", "accumulate=2"}},
      {"dynamic", {"precision=fp16", "loss_scale=0", "non_finite=skip", "steps=10"}, 2e-3},
  };
  for (const auto& row : rows) {
    const TrainConfig config = parse_config(kNet, "net.yaml", row.changes);
    const std::string what = row.what;
    const Evaluation one = train_in_threads(folder / what, config, 0);
    for (const int size : {2, 3}) {
      const std::string name = what + std::to_string(size);
      const Evaluation several = train_in_threads(folder / name, config, size);
      EXPECT_LT(difference_of(folder / what, folder / name), row.allowed) << name;
      EXPECT_NEAR(several.loss, one.loss, 10 * row.allowed) << name;
      EXPECT_EQ(several.samples, 50);
      ASSERT_EQ(several.predictions.size(), one.predictions.size());
      for (std::size_t i = 0; i < one.predictions.size(); ++i)
        EXPECT_EQ(several.predictions[i].label, one.predictions[i].label) << i;
    }
  }
}

TrainConfig ordered(const std::vector<std::string>& changes) {
  std::vector<std::string> assignments = {"reduction=ordered", "data.glyphs.batch=16"};
  assignments.insert(assignments.end(), changes.begin(), changes.end());
  return parse_config(kRun, "run.yaml", assignments);
}

// kRun has dropout, batch norm, Adam, a plateau, clipping, an uneven evaluation.
TEST(RanksInOneProcess, OrderedRunsAreEqualBitByBit) {
  const TempFolder folder;
  const TrainConfig config = ordered({});
  train_in_threads(folder / "0", config, 0);
  for (const int size : {2, 4, 8}) {
    const std::string name = std::to_string(size);
    train_in_threads(folder / name, config, size);
    expect_same_files(folder / "0", folder / name, "on " + name);
  }
  // What is exchanged is not rounded to halves.
  for (const char* precision : {"precision=fp16", "precision=bf16"}) {
    const TrainConfig halves = ordered({precision, "epochs=1"});
    train_in_threads(folder / precision / "0", halves, 0);
    train_in_threads(folder / precision / "4", halves, 4);
    expect_same_files(folder / precision / "0", folder / precision / "4", precision);
  }
  EXPECT_THAT(error_of([&] { train_in_threads(folder / "odd", ordered({"data.glyphs.batch=24"}), 3); }),
              HasSubstr("reduction: ordered cuts a batch into 8 shards, which 3 ranks cannot share equally"));
  EXPECT_THAT(error_of([&] { Trainer trainer(ordered({"data.glyphs.batch=20"})); }),
              HasSubstr("but batch is 20; take a multiple of 8"));
}

// A run of four ranks goes on with two, from the first one's folder alone.
TEST(RanksInOneProcess, ResumeOnAnotherNumber) {
  const TempFolder folder;
  train_in_threads(folder / "whole", ordered({}), 0);
  train_in_threads(folder / "moved", ordered({}), 4, 9);
  train_in_threads(folder / "moved", ordered({}), 2);
  EXPECT_EQ(difference_of(folder / "whole", folder / "moved"), 0);
}

// All ranks find the same loss, or the same state at a save, and go back together.
TEST(RanksInOneProcess, GoBackTogether) {
  const TempFolder folder;
  for (const char* more : {"save_every=100", "save_every=3"}) {
    const TrainConfig config =
        with_assignments(bearable_at_half("reduction: ordered\n"), "a test", {"data.glyphs.batch=24", more});
    const auto one = folder / more / "1", two = folder / more / "2";
    train_in_threads(one, config, 0);
    train_in_threads(two, config, 2);
    expect_same_files(one, two, more);
    EXPECT_GT(std::get<std::int64_t>(last_of(two).state.at("roll_backs")), 0);
  }
}

// A state that is not finite is found at the save that it is due at, by each rank.
TEST(RanksInOneProcess, SaveNoStateThatIsNotFinite) {
  const TempFolder folder;
  const TrainConfig config = ordered({"non_finite=roll_back", "save_every=3"});
  on_ranks(2, [&](const World& world, Backend& backend) {
    Trainer trainer(config, {.run = world.is_first() ? folder.path() : "",
                             .backend = std::shared_ptr<Backend>(std::shared_ptr<void>(), &backend),
                             .world = world});
    int spoilt = 0;
    EXPECT_TRUE(trainer.train([&] {
      if (trainer.step() == 5 && spoilt++ == 0)
        for (const Variable& value : trainer.optimizer().state().all())
          if (value.name() == "1.bias.exp_avg_sq")
            value.set(Array::from(std::vector<double>(16, std::numeric_limits<double>::infinity()), {16}));
      return false;
    }));
  });
  EXPECT_EQ(std::get<std::int64_t>(last_of(folder.path()).state.at("roll_backs")), 1);
}

class Ranks : public testing::Test {
 protected:
  Ranks() { std::ofstream(folder_ / "net.yaml") << kNet; }
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "mpirun is missing: apt install openmpi-bin";
  }

  static std::string mpirun(int ranks) {
    return fmt::format(
        "env OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1 timeout -k 5 60 mpirun "
        "--allow-run-as-root --oversubscribe --bind-to none -np {} ",
        ranks);
  }
  /// Runs `trainer --config net.yaml --run NAME ARGUMENTS` on so many ranks; 0: without mpirun.
  Ran train(int ranks, const std::string& name, const std::string& arguments = "") const {
    const Ran ran = run_program(fmt::format("trainer --config {} --run {} {}", path("net.yaml"), path(name), arguments),
                                ranks ? mpirun(ranks) : "");
    return ran;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Checkpoint last(const std::string& name) const { return last_of(folder_ / name); }

  double difference(const std::string& a, const std::string& b) const {
    return difference_of(folder_ / a, folder_ / b);
  }
  TempFolder folder_;
};

TEST_F(Ranks, AnyNumberOfRanksEndsAlike) {
  ASSERT_EQ(train(0, "one").code, 0);
  for (const int ranks : {1, 2, 4}) {
    const std::string name = "of" + std::to_string(ranks);
    const Ran ran = train(ranks, name);
    ASSERT_EQ(ran.code, 0) << ran.output;
    EXPECT_LT(difference("one", name), 2e-5) << ranks;
    if (ranks > 1) {
      EXPECT_THAT(ran.output, HasSubstr(fmt::format("{} ranks on ", ranks)));
    }
  }
}

TEST_F(Ranks, RepeatARunBitByBit) {
  ASSERT_EQ(train(3, "first").code, 0);
  ASSERT_EQ(train(3, "second").code, 0);
  expect_same_files(folder_ / "first", folder_ / "second");
}

// Eight shards on any number of ranks: the same files, bit by bit, also where a run goes on with another number.
TEST_F(Ranks, OrderedRunsAreEqualOnAnyNumber) {
  const std::string net =
      "--set reduction=ordered --set data.glyphs.batch=16 --set model='[{conv2d: {out: 4, kernel: 3, pad: 1}}, "
      "batch_norm, "
      "relu, "
      "flatten, {dropout: {rate: 0.3}}, {linear: {out: 10}}]' ";
  ASSERT_EQ(train(0, "one", net).code, 0);
  for (const int ranks : {2, 4}) {
    const std::string name = "of" + std::to_string(ranks);
    const Ran ran = train(ranks, name, net);
    ASSERT_EQ(ran.code, 0) << ran.output;
    expect_same_files(folder_ / "one", folder_ / name, name);
  }
  EXPECT_LT(difference("one", "of4"), 1e-30);
  const Ran odd = train(3, "three", net + "--set data.glyphs.batch=24");
  EXPECT_EQ(odd.code, 2);
  EXPECT_THAT(odd.output,
              HasSubstr("reduction: ordered cuts a batch into 8 shards, which 3 ranks cannot share equally"));
}

// Running statistics are the means of the ranks': each saw a part of the batch.
TEST_F(Ranks, NormaliseWithTheStatisticsOfAll) {
  const std::string net =
      "--set steps=1 --set model='[flatten, {linear: {out: 16}}, batch_norm, relu, {linear: {out: 10}}]'";
  const Ran ran = train(2, "normal", net);
  ASSERT_EQ(ran.code, 0) << ran.output;
  ASSERT_EQ(train(0, "alone", net).code, 0);
  const auto of_two = last("normal").model.at("2.running_mean").to_vector<double>(),
             of_one = last("alone").model.at("2.running_mean").to_vector<double>();
  for (std::size_t i = 0; i < of_two.size(); ++i) EXPECT_NEAR(of_two[i], of_one[i], 1e-5);
}

// A checkpoint does not tell how many ranks wrote it.
TEST_F(Ranks, ResumeOnAnotherNumber) {
  ASSERT_EQ(train(0, "whole").code, 0);
  ASSERT_EQ(train(4, "moved", "--set steps=25").code, 0);
  ASSERT_EQ(train(2, "moved", "--resume --set steps=40").code, 0);
  const Ran ran = train(0, "moved", "--resume --set steps=60");
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_LT(difference("whole", "moved"), 2e-5);
}

TEST_F(Ranks, SayOnceWhatIsWrong) {
  const Ran ran = train(5, "odd");
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("rank 0 of 5 on "));
  EXPECT_THAT(ran.output,
              HasSubstr("batch is 12, which 5 ranks cannot share equally; take 10 or 15, or another number"));
  EXPECT_EQ(ran.output.find("rank 3 of 5"), std::string::npos) << ran.output;
}

/// The processes of the job whose command line holds the text.
std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
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
    ASSERT_TRUE(wait_for([&] { return std::filesystem::exists(folder_ / name / "last.h5"); }));
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
    EXPECT_EQ(ran.code, row.code) << ran.output;
    EXPECT_THAT(ran.output, testing::ContainsRegex(row.line));
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
    const bool goes_on = std::filesystem::exists(folder_ / name / "config.yaml");
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
    unheard += !testing::Matches(testing::ContainsRegex("rank [0-2] (of 3 on|with PID)"))(ran.output);
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
  const Ran ran = end();
  EXPECT_EQ(ran.code, 130) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("stopped after step "));
  EXPECT_NO_THROW(last("stopped"));
}

}  // namespace
}  // namespace nixie
