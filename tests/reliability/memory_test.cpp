// The trainer's message where there is too little memory: the tensor, and a batch that fits.
#include <sys/resource.h>

#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/data/pictures.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // those need terabytes of addresses
namespace nixie {
namespace {

const std::string kEnd = "data: {glyphs: {train: 40, test: 20, batch: 20}}\nsteps: 1\nbackend: cpu\n";

class WantOfMemory : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  /// A run's result; its folder is removed.
  Ran run(const std::string& arguments, const std::string& before) const {
    const Ran ran = run_program("trainer " + arguments + " --run " + path("run"), before);
    fs::remove_all(path("run"));
    return ran;
  }
  TempFolder folder_;
};

// Whether it is trained or only tried.
TEST_F(WantOfMemory, NamesTheTensorAndWhatToDo) {
  const std::string smaller_model = "]; use a larger device or a smaller model\n",
                    no_batch =
                        "; the batch is 20; none is sure to fit, 1 did not when it was tried: use a larger machine or "
                        "a smaller model\n";
  const struct {
    std::string layers, how, tensor, advice;
  } kCases[] = {
      {"flatten, {linear: {out: 10000000}}, {linear: {out: 10}}", "--dry-run ", "scratch memory (29907 MiB)", no_batch},
      {"flatten, {linear: {out: 10000000}}, {linear: {out: 10}}", "", "weight.momentum_buffer f32 [10000000, 784]: no ",
       smaller_model},
      {"{conv2d: {out: 4, kernel: 3, stride: 1000000, pad: 1000000}}, flatten, {linear: {out: 10}}", "--dry-run ",
       "[20, 4, 3, 3]", no_batch},
      {"{conv2d: {out: 4, kernel: 3, stride: 1000000, pad: 1000000}}, flatten, {linear: {out: 10}}", "",
       "[20, 4, 3, 3]", no_batch},
      {"{upsample: {factor: 300}}, flatten, {linear: {out: 10}}", "--dry-run ", "[20, 1, 28, 300, 28, 300]", no_batch},
      {"{upsample: {factor: 300}}, flatten, {linear: {out: 10}}", "", "momentum_buffer f32 [10, 70560000]: no ",
       smaller_model}};
  for (const auto& c : kCases) {
    const std::string net = write("net.yaml", "model: [" + c.layers + "]\n" + kEnd);
    expect_ran(run(c.how + "--config " + net, "ulimit -v 2000000; "), 4, c.tensor, EndsWith(c.advice));
  }
}

/// The least limit of addresses, in MiB, under which the program starts: its libraries take more on some machines.
int least_to_start() {
  int mib = 16;
  while (run_program("trainer list losses", fmt::format("ulimit -v {}; ", mib << 10)).code != 0 && mib < 2000) mib += 4;
  return mib;
}

/// A command, a net, and limits of addresses in MiB beyond those to start.
struct Limited {
  const char* command;
  const char* net;
  std::vector<int> limits;
};

// Nets that take memory in different ways: by layers, by copies of their weights, by batches, by saves.
constexpr const char *kConvolutions = R"(
model: [{conv2d: {out: 64, kernel: 3, pad: 1}}, relu, {conv2d: {out: 64, kernel: 3, pad: 1}}, flatten, {linear: {out: 10}}]
data: {glyphs: {train: 10000, test: 256, batch: 5000}}
steps: 1
)",
                     *kCopies = R"(
model: [flatten, {linear: {out: 2000}}, tanh, {linear: {out: 10}}]
data: {glyphs: {train: 4000, test: 256, batch: 2000}}
ema: 0.9
precision: fp16
accumulate: 2
steps: 1
)",
                     *kParts = R"(
model: [{conv2d: {out: 32, kernel: 3, pad: 1}}, relu, {deconv2d: {out: 10, kernel: 3, pad: 1}}, global_avg_pool, flatten]
data: {glyphs: {train: 900, test: 3000, batch: 128}}
optimizer: adamw
accumulate: 3
steps: 3
evaluate_every: 2
)",
                     *kImages = R"(
model: [{conv2d: {out: 8, kernel: 5, stride: 2}}, relu, global_avg_pool, flatten, {linear: {out: 10}}]
data: {generated: {train: 600, test: 300, batch: 256, height: 96, width: 96}}
steps: 2
save_every: 1
)",
                     *kSaves = R"(
model: [flatten, {linear: {out: 3000}}, relu, {linear: {out: 10}}]
data: {glyphs: {train: 200, test: 100, batch: 64}}
optimizer: {rmsprop: {centered: true, momentum: 0.9}}
ema: 0.9
non_finite: roll_back
steps: 2
save_every: 1
)";

/// Follows the advice under each limit: a batch that fits trains to the end, evaluations and saves included, and
/// where 1 does not, it does not under a limit that is a little lower. How often a batch was named.
int follow_advice(const TempFolder& folder, const Limited& limited, int start) {
  const std::string net = (folder / "net.yaml").string(), run = (folder / "run").string();
  std::ofstream(net) << limited.net << "backend: cpu\nthreads: 2\nloader: {threads: 2}\n";
  int named = 0;
  for (const int beyond : limited.limits) {
    const int mib = start + beyond;
    const auto under = [&](int limit, const std::string& arguments) {
      const Ran ran = run_program("trainer " + arguments, fmt::format("ulimit -v {}; ", limit << 10));
      fs::remove_all(run);
      return ran;
    };
    const std::string train = " --config " + net + " --run " + run, command = limited.command;
    const Ran first = under(mib, command.empty() ? train : command + " --config " + net);
    if (first.code == 0 || first.code == 127) continue;  // it fits; or the system's loader does not
    EXPECT_EQ(first.code, 4) << mib << first.output;
    const std::string where = fmt::format("{}{}\n{} MiB: {}", limited.net, command, mib, first.output);
    const std::size_t at = first.output.rfind(" --set data.");
    if (first.output.find(" was tried and fits: --set ") != std::string::npos) {
      expect_ran(under(mib, train + first.output.substr(at, first.output.size() - 1 - at)), 0);
      ++named;
    } else {
      constexpr int kALittle = 8;
      EXPECT_EQ(at, std::string::npos) << where;
      const bool is_generated = std::string(limited.net).find("glyphs") == std::string::npos;
      const char* smallest = is_generated ? " --set data.generated.batch=1" : " --set data.glyphs.batch=1";
      EXPECT_NE(under(mib - kALittle, train + smallest).code, 0) << where;
    }
  }
  return named;
}

// Arrays that no batch changes (weights, their averages and copies, a checkpoint in the making) fail at once.
TEST_F(WantOfMemory, TheBatchThatIsSaidToFitFits) {
  const Limited kCases[] = {{"", kConvolutions, {200}}, {"", kCopies, {160}},        {"", kParts, {65, 85}},
                            {"", kImages, {130}},       {"--dry-run", kParts, {80}}, {"summary", kParts, {65}}};
  const int start = least_to_start();
  int named = 0;
  for (const Limited& c : kCases) named += follow_advice(folder_, c, start);
  EXPECT_GE(named, 3);  // another machine's libraries may take more
}

TEST_F(WantOfMemory, TheBatchThatIsSaidToFitFitsLong) {
  const int start = least_to_start();
  int named = 0;
  for (const char* command : {"", "--dry-run"})
    for (const char* net : {kConvolutions, kCopies, kParts, kImages, kSaves}) {
      Limited limited{command, net, {}};
      for (int mib = 50; mib < 360; mib += 17) limited.limits.push_back(mib);
      named += follow_advice(folder_, limited, start);
    }
  EXPECT_GE(named, 30);
}

/// Whether a folder holds a name that begins so.
bool has_entry(const fs::path& folder, const std::string& start) {
  return std::ranges::any_of(fs::directory_iterator(folder),
                             [&](const auto& entry) { return entry.path().filename().string().starts_with(start); });
}

/// How many processes have this among their arguments.
int processes_with(const std::string& argument) {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    std::ifstream line(entry.path() / "cmdline", std::ios::binary);
    const std::string words{std::istreambuf_iterator<char>(line), {}};
    count += words.find(argument) != std::string::npos;
  }
  return count;
}

// A signal ends a trial at once, and whatever ends the trainer leaves no process; a folder that SIGKILL leaves the next
// trial removes.
TEST_F(WantOfMemory, ATrialEndsWithTheTrainer) {
  constexpr int kSeconds = 5;
  constexpr rlim_t kAddresses = 1'500'000UL << 10;
  const std::string net = write("slow.yaml", R"(
model: [{conv2d: {out: 64, kernel: 7, pad: 3}}, {conv2d: {out: 64, kernel: 7, pad: 3}}, {conv2d: {out: 64, kernel: 7, pad: 3}},
        {conv2d: {out: 64, kernel: 7, pad: 3}}, global_avg_pool, flatten, {linear: {out: 10}}]
data: {generated: {train: 1000, test: 500, batch: 500, height: 96, width: 96}}
steps: 2
backend: cpu
threads: 1
)");
  const std::string trials = path("trials"), trial = "nixie-trial-", log = path("log");
  fs::create_directories(trials + "/" + trial + "stale");
  write("trials/" + trial + "stale/.made-by-nixie-for-a-trial", "");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"--run", path("run")}, {"--dry-run"}, {"profile"}})
    for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"--config", net});
      const rlimit limit{kAddresses, before.rlim_max};
      ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
      Child child(arguments, log, {{"TMPDIR", trials}});
      ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
      ASSERT_TRUE(wait_for([&] { return has_entry(trials, trial) && !has_entry(trials, trial + "stale"); }));
      ASSERT_TRUE(wait_for([&] { return processes_with(net) == 2; })) << text_of(log);
      const auto begin = std::chrono::steady_clock::now();
      child.send(signal);
      const int code = exit_code(child.wait());
      EXPECT_EQ(code, signal == SIGKILL ? 128 + SIGKILL : 130) << text_of(log);
      EXPECT_TRUE(wait_for([&] { return processes_with(net) == 0; })) << "an orphan";
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSeconds));
      EXPECT_EQ(has_entry(trials, trial), signal == SIGKILL) << signal;
      EXPECT_EQ(text_of(log).find("a signal ended the trial of a smaller one") != std::string::npos, signal != SIGKILL);
      fs::remove_all(trials);
      fs::create_directories(trials);
      fs::remove_all(path("run"));
    }
}

// It can be begun again there.
TEST_F(WantOfMemory, ThatRefusesAThreadLeavesNoRun) {
  constexpr int kStackMib = 8;
  const std::string net =
      write("net.yaml", "model: [flatten, {linear: {out: 10}}]\nthreads: 1\nloader: {threads: 1}\n" + kEnd);
  int refused = 0;
  for (int mib = 40; mib < 400; mib += kStackMib / 2) {
    const Ran ran =
        run_program("trainer --config " + net + " --run " + path("run"), fmt::format("ulimit -v {}; ", mib << 10));
    if (ran.output.find(": thread 1 of 1 cannot be started: ") != std::string::npos) {
      EXPECT_THAT(
          ran.output,
          EndsWith("; ask for fewer threads (threads, loader.threads), or raise the limits (ulimit -u, ulimit -v)\n"));
      EXPECT_FALSE(fs::exists(path("run/config.yaml"))) << ran.output;
      refused += ran.output.find("watchdog") != std::string::npos;
    }
    fs::remove_all(path("run"));
    if (ran.code == 0) break;
  }
  EXPECT_GT(refused, 0);
}

// A decoder or a thread that finds no memory is no damage of a picture.
TEST_F(WantOfMemory, IsNoDamage) {
  fs::create_directories(folder_ / "pictures" / "a");
  constexpr int kPictures = 4, kSide = 1500;
  const Bytes file = png(Bytes(3 * kSide * kSide, 7), kSide, kSide);
  for (int i = 0; i < kPictures; ++i) write(fmt::format("pictures/a/{}.png", i), {file.begin(), file.end()});
  int refused = 0, read = 0;
  for (int mib = least_to_start(); mib <= 140; mib += 4) {
    const Ran ran = run_program("trainer data verify " + path("pictures"), fmt::format("ulimit -v {}; ", mib << 10));
    EXPECT_THAT(ran.code, testing::AnyOf(0, 4)) << mib << ran.output;
    ++(ran.code == 0 ? read : refused);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace nixie
#endif
