// The trainer as a program: exit codes, what it prints, and runs that are killed.
#include <sys/stat.h>

#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

using testing::MatchesRegex;

class TrainerProgram : public testing::Test {
 protected:
  TrainerProgram() { folder_.write("net.yaml", kRun); }

  /// Runs `trainer --config net.yaml ARGUMENTS` in the test's folder.
  Ran run(const std::string& arguments, const std::string& before = "") const {
    return folder_.trainer("--config net.yaml " + arguments, before);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Starts `trainer --config net.yaml --run RUN`, which prints to `log`, and waits for its first save.
  std::unique_ptr<Child> started(const fs::path& run,
                                 const std::vector<std::string>& sets = {"steps=0", "epochs=100000"}) const {
    std::vector<std::string> arguments = {"--config", path("net.yaml"), "--run", run.string()};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    auto child = std::make_unique<Child>(arguments, path("log"));
    EXPECT_TRUE(wait_for([&] { return fs::exists(run / "last.h5"); })) << run;
    return child;
  }
  /// The command that a stopped run printed, up to this step and with its output in `log`.
  std::string command_to_go_on(std::int64_t steps) const {
    const std::string text = folder_.text("log"), start = "go on with: ";
    EXPECT_THAT(text, HasSubstr(start));
    const std::string line = text.substr(text.find(start) + start.size());
    return fmt::format("{} --set epochs=0 --set steps={} > '{}' 2>&1", line.substr(0, line.find('\n')), steps,
                       path("log"));
  }

  Workplace folder_;
};

TEST_F(TrainerProgram, TrainsAndPrintsTheResultLast) {
  const Ran ran = run("--run run --set metrics='[recall]'");
  expect_ran(ran, 0, "backend cpu, ", " built for ", "model sequential: 12762 parameters in 6 arrays");
  const std::size_t report = ran.output.find("the run is in run; open report.html there");
  EXPECT_LT(report, ran.output.find("epoch 1")) << ran.output;  // to be watched from the beginning
  const std::size_t last = ran.output.rfind('\n', ran.output.size() - 2) + 1;
  EXPECT_THAT(ran.output.substr(last),
              MatchesRegex("test accuracy [01]\\.[0-9]{4} loss [0-9]+\\.[0-9]{4} .50 samples.\n"));
  for (const char* file : {"config.yaml", "metrics.csv", "timing.csv", "last.h5", "best.h5"})
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;

  const Ran again = run("--run run");
  expect_ran(again, 2, "already holds a run");
  for (const char* mine : {"metrics.jsonl", "report.html", "log.txt", "timing.csv"}) {
    const std::string folder = std::string("of_") + mine;
    fs::create_directories(folder_ / folder);
    std::ofstream(folder_ / folder / mine) << "mine";
    EXPECT_THAT(run("--run " + path(folder)).output, HasSubstr(fmt::format("already holds a run ({})", mine)));
  }
  // A finished run that is resumed prints its result again, from its folder alone.
  expect_ran(folder_.trainer("--resume --run run"), 0, HasSubstr(ran.output.substr(last)));
}

// A file may leave the length of its runs to each of them.
TEST_F(TrainerProgram, TheLengthMayBeGivenByAnAssignmentAlone) {
  std::ofstream(folder_ / "net.yaml") << "model: {mlp: {hidden: [8], classes: 10}}\n"
                                         "data: {glyphs: {train: 40, test: 20, batch: 20}}\n";
  const std::string length = "--set epochs=1 --run run";
  EXPECT_THAT(run("--run run").output, HasSubstr("the length of the run is missing"));
  expect_ran(run(length), 0);
  expect_ran(run(length + " --resume"), 0, Not(HasSubstr("differs")));
  EXPECT_THAT(run(length + " --resume --set seed=1").output, HasSubstr("seed"));
  std::ofstream(folder_ / "table.csv") << "a,b,kind\n1,2,x\n2,1,y\n3,1,x\n2,2,y\n1,3,x\n4,1,y\n";
  const Ran data = run("--set epochs=1 --set data.arrays.batch=2 --data table.csv --run of_table");
  EXPECT_EQ(data.code, 0) << data.output;
}

TEST_F(TrainerProgram, ExitCodesSayWhatWentWrong) {
  std::ofstream(folder_ / "damaged.h5") << "no checkpoint";
  fs::create_directories(folder_ / "alone");
  fs::create_directories(folder_ / "run");
  std::ofstream(folder_ / "alone/photo.jpg") << "a picture";
  expect_runs([&](const std::string& arguments) { return run(arguments); },
              {{"--set optimizer.adam.beta=1", 2, "--set optimizer.adam.beta=1: unknown key"},
               {"--epochs 3", 2, "to change the configuration write --set epochs=3"},
               {"--data folder --accumulate 2", 2, "to change the configuration write --set accumulate=2"},
               {"--optimizer.sgd.momentum=0.5", 2, "write --set optimizer.sgd.momentum=0.5"},
               {"--set model=mlpp", 2, "did you mean \"mlp\"?"},
               {"--set backend=cuda --set threads=-1", 2, "threads is -1"},
               {"--set data.mnist.path=/nonexistent", 5, "/nonexistent"},
               {"--resume damaged.h5", 6, "damaged.h5"},
               {"--run x --set schedule.constant.rate=1e38 --set optimizer=sgd --set clip_norm=0", 7, "not finite"},
               {"--run /proc/nixie", 8, "/proc/nixie"},
               {"--set data.mnist.path=/nonexistent --run net.yaml", 8, "net.yaml is no folder; choose another with"},
               {"--resume --run nothing", 2, "no folder"},
               {"--resume nothing", 6, "give the path of a checkpoint or of a run's folder"},
               {"--resume alone/photo.jpg", 6, "photo.jpg is no nixie checkpoint"},
               {"--resume . --run nothing", 2, "expected one of them"}});
  EXPECT_EQ(run_program("trainer help predict").output, run_program("trainer predict --help").output);
  EXPECT_EQ(run_program("trainer --help").code, 0);
  EXPECT_THAT(run_program("trainer --list").output,
              HasSubstr("momentum: 0.9  # fraction of the last step that is kept"));
  const std::string losses = run_program("trainer list losses").output;
  EXPECT_THAT(losses, HasParts(StartsWith("losses\n  cross_entropy\n"), Not(HasSubstr("adam"))));
  EXPECT_THAT(run_program("trainer list configs").output,
              ContainsRegex("configs/photos.yaml +A net for a few thousand photographs"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // those need terabytes of addresses
// Within a limit: where the system promises any memory, what asks for more than there is gets killed.
TEST_F(TrainerProgram, WantOfMemoryNamesTheWeights) {
  expect_ran(run("--set data.generated.height=60000 --set data.generated.width=60000", "ulimit -v 64000000; "), 4,
             "1.weight f32 [16, 10800000000]: no 691200000000 bytes");
}
#endif

TEST_F(TrainerProgram, EveryProblemOfAFileIsPrinted) {
  std::ofstream(folder_ / "net.yaml") << "model: lenett\nepohcs: 3\ndata: {glyphs: {batch: 0}}\n";
  expect_ran(run(""), 2, "net.yaml:1:8: unknown name \"lenett\"", "net.yaml:2:1: unknown key \"epohcs\"",
             "net.yaml:3:24: data.glyphs.batch is 0");
}

TEST_F(TrainerProgram, AFileThatCannotGrowIsAStorageFault) {
  // The limit (in blocks of 512 or 1024 bytes) lets the tables and the report be written and no checkpoint.
  expect_ran(run("--run run", "ulimit -f 140; "), 8, ".h5");
  EXPECT_FALSE(fs::exists(folder_ / "run" / "last.h5"));
}

/// Starts the trainer, sends a signal after a while and gives its wait status.
int run_with_signal(const std::vector<std::string>& arguments, int signal, int after_ms) {
  Child child(arguments);
  sleep_ms(after_ms);
  child.send(signal);
  return child.wait();
}

TEST_F(TrainerProgram, EverySignalThatEndsProgramsSavesAndThePrintedLineGoesOn) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGXCPU}) {
    const fs::path run = folder_ / ("it's run " + std::to_string(signal));
    const auto child = started(run, {"steps=0", "epochs=2000", "data.glyphs.train=405"});
    child->send(signal);
    child->send(signal);  // as a process group and a shell do: the save goes on
    EXPECT_EQ(exit_code(child->wait()), 130) << signal;
    const std::int64_t step = saved(run / "last.h5");
    // Pasted into a shell, with an end: the run's own data and options are used though nothing names them.
    const std::string command = command_to_go_on(step + 5);
    EXPECT_EQ(std::system(command.c_str()), 0) << command << folder_.text("log");
    EXPECT_THAT(folder_.text("log"),
                HasParts("resumed after step " + std::to_string(step), "data glyphs: 405 training"));
    EXPECT_EQ(saved(run / "last.h5"), step + 5);
  }
}

// Whatever the folder is called, the line is one line and goes on when bash reads it, in any folder.
TEST_F(TrainerProgram, ALineToGoOnWithIsOneLine) {
  const fs::path run = fs::relative(folder_ / "a\nb\x1b[31m\xe2\x80\xae\xff");
  const auto child = started(run, {"steps=100000"});
  child->send(SIGTERM);
  EXPECT_EQ(exit_code(child->wait()), 130);
  EXPECT_EQ(folder_.text("log").find('\x1b'), std::string::npos);
  folder_.write("command", "cd /\n" + command_to_go_on(saved(run / "last.h5") + 1) + "\n");
  EXPECT_EQ(std::system(("bash '" + path("command") + "'").c_str()), 0)
      << folder_.text("command") << folder_.text("log");
  for (const std::string& file : {folder_.text("log"), text_of(run / "log.txt")})
    EXPECT_EQ(file.find('\x1b'), std::string::npos);
}

TEST_F(TrainerProgram, ASecondSignalEndsAtOnceButNotWithinASecond) {
  // Evaluation dominates and steps are long, so that the first signal alone would take long.
  Child child({"--config", path("net.yaml"), "--run", path("run"), "--set", "epochs=1", "--set", "steps=0", "--set",
               "data.glyphs.train=60000", "--set", "data.glyphs.batch=60000", "--set", "model.1.linear.out=2000"});
  ASSERT_TRUE(wait_for([&] { return fs::exists(folder_ / "run" / "timing.csv"); }));
  child.send(SIGTERM);
  sleep_ms(100);
  child.send(SIGTERM);
  sleep_ms(1200);
  child.send(SIGTERM);
  const auto begin = std::chrono::steady_clock::now();
  const int status = child.wait();
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
  const bool had_ended = WIFEXITED(status) && WEXITSTATUS(status) == 130;  // a fast machine
  EXPECT_TRUE(was_killed || had_ended) << status;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(TrainerProgram, Usr1SavesAndTheRunGoesOn) {
  const auto child = started(folder_ / "run");
  child->send(SIGUSR1);
  ASSERT_TRUE(wait_for([&] { return folder_.text("log").find("saved after step ") != std::string::npos; }));
  child->send(SIGTERM);
  EXPECT_EQ(exit_code(child->wait()), 130);
}

// One that comes before the first step is kept until there is something to save.
TEST_F(TrainerProgram, Usr1WhileTheRunBeginsIsKept) {
  const fs::path run = folder_ / "run", log = folder_ / "log", pipe = folder_ / "pipe.yaml";
  const std::string text = text_of(folder_ / "net.yaml");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Child child({"--config", pipe.string(), "--run", run.string()}, log.string());
  std::ofstream config(pipe);  // waits until the trainer reads
  child.send(SIGUSR1);
  config << text;
  config.close();
  EXPECT_EQ(exit_code(child.wait()), 0);
  EXPECT_THAT(text_of(log), HasSubstr("saved after step 1\n"));
}

TEST_F(TrainerProgram, ASecondTrainerInAFolderIsRefused) {
  const auto child = started(folder_ / "run");
  expect_ran(folder_.trainer("--resume --run run"), 2,
             MatchesRegex("(.*\n)*.*run is in use by another trainer .pid [0-9]+ on .*"));
  child->send(SIGKILL);
  child->wait();
  const Ran third = folder_.trainer("--resume --run run --set epochs=0 --set steps=1");
  EXPECT_THAT(third.output, HasSubstr("last.h5 is of step "));  // the dead hold nothing
}

// Descriptors that the caller closed must not be given to the run's files.
TEST_F(TrainerProgram, ClosedStandardStreamsHarmNothing) {
  ASSERT_EQ(run("--run whole").code, 0);
  for (const char* closed : {"1>&-", "0<&- 1>&- 2>&-"}) {
    fs::remove_all(folder_ / "run");
    const std::string command =
        "cd '" + folder_.path().string() + "'; " NIXIE_BINARY_DIR "/trainer --config net.yaml --run run " + closed;
    EXPECT_EQ(std::system(command.c_str()), 0) << closed;
    expect_same_files(folder_ / "whole", folder_ / "run", closed);
  }
}

// A mistake that only the step or an evaluation finds is an error before anything is trained or written.
TEST_F(TrainerProgram, MistakesInLossAndMetricsLeaveNoRun) {
  for (const char* wrong : {"'metrics=[{top_k: {k: 200}}]'", "'loss={cross_entropy: {class_weights: [1, 2]}}'",
                            "accumulate=2 'loss={cross_entropy: {class_weights: [1, 2]}}'"}) {
    expect_ran(run(std::string("--run run --set ") + wrong), 2, Not(HasSubstr("epoch 1")));
    EXPECT_FALSE(fs::exists(folder_ / "run")) << wrong;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(TrainerProgram, ThreadsThatCannotStartEndTheRun) {
  const std::string limited = "ulimit -v 1500000; timeout 60 ";
  for (const char* threads : {"--set threads=3000", "--set loader.threads=1000 --set threads=1"}) {
    expect_ran(run(std::string("--run run ") + threads, limited), 4, " cannot be started: ",
               EndsWith("(ulimit -u, ulimit -v)\n"));  // and no word of the batch
  }
}
#endif

TEST_F(TrainerProgram, AResumedRunKeepsItsOwnConfiguration) {
  ASSERT_EQ(run("--run run --set data.glyphs.train=105 --set epochs=1").code, 0);
  const std::string own = text_of(folder_ / "run" / "config.yaml");
  // The file that began it names other data; the run uses its own, and says so.
  expect_ran(run("--resume --run run"), 0, "data.glyphs.train: 105 -> 205", "data glyphs: 105 training");
  EXPECT_EQ(text_of(folder_ / "run" / "config.yaml"), own);
  // What --set names may change, where the checkpoint still fits.
  expect_ran(folder_.trainer("--resume --run run --set epochs=2 --set data.glyphs.test=60"), 6,
             "test samples 50, this one has 60");
  EXPECT_EQ(text_of(folder_ / "run" / "config.yaml"), own);
  expect_ran(folder_.trainer("--resume --run run --set epochs=2"), 0, "changed since the checkpoint: epochs: 1 -> 2");
}

// A checkpoint's weights take the place of any others; where none was saved, init_from gives the first ones.
TEST_F(TrainerProgram, AResumedRunRefusesOtherFirstWeights) {
  ASSERT_EQ(run("--run run --set epochs=1").code, 0);
  const std::string own = text_of(folder_ / "run" / "config.yaml"), weights = path("run/best.h5");
  fs::create_directory(folder_ / "unsaved");
  fs::copy(folder_ / "run/config.yaml", folder_ / "unsaved/config.yaml");
  const auto resumed = [&](const std::string& arguments) { return folder_.trainer("--resume " + arguments); };
  expect_runs(resumed,
              {{"run/last.h5 --set init_from=" + weights, 2,
                "init_from is " + weights + ", but a resumed run goes on with its checkpoint's weights; take --set"},
               {"run --set init_from=" + weights, 2, "but a resumed run goes on"}});
  EXPECT_EQ(text_of(folder_ / "run/config.yaml"), own);
  expect_runs(resumed, {{"run --set 'init_from=\"\"'", 0, "test accuracy"},
                        {"unsaved --set init_from=" + weights, 0, "8 of 8 arrays taken"}});
}

// As the README has it: the newest run of a configuration goes on, with the data it was begun with.
TEST_F(TrainerProgram, TheNewestRunOfAConfigurationGoesOn) {
  for (const char* train : {"105", "125"})
    ASSERT_EQ(run(std::string("--set epochs=1 --set data.glyphs.train=") + train).code, 0);
  const Ran resumed = run("--resume");
  expect_ran(resumed, 0, "data glyphs: 125 training", "the run is in runs/net/2");
  const Ran unnamed = folder_.trainer("--resume");
  EXPECT_THAT(unnamed.output, HasSubstr("for the one that was saved last write --resume runs/net/2"));
  EXPECT_THAT(resumed.output, EndsWith(folder_.trainer("--resume runs/net/2").output));
  const std::string log = text_of(folder_ / "runs/net/2/log.txt");  // the version and the command of each part
  EXPECT_THAT(log,
              HasParts(ContainsRegex(": [^ ]*trainer --config net.yaml --set epochs=1 --set data.glyphs.train=125"),
                       ContainsRegex(" nixie [0-9.]+: [^ ]*trainer --config net.yaml --resume\n")));
}

// Mistakes that can be found at once are found before an hour of reading pictures.
TEST_F(TrainerProgram, AFolderThatHoldsARunIsRefusedBeforeDataIsLoaded) {
  ASSERT_EQ(run("--run run --set epochs=1").code, 0);
  expect_ran(run("--run run --set data.mnist.path=/nonexistent"), 2, "already holds a run");
}

// Killed over and over at arbitrary moments, the finished run equals one that was left alone.
TEST_F(TrainerProgram, KilledAtAnyMomentTheRunEndsTheSameLong) {
  std::ofstream(folder_ / "net.yaml", std::ios::app) << "save_every: 7\n";
  const std::string more = "--set steps=0 --set epochs=60 ";
  ASSERT_EQ(run(more + "--run whole").code, 0);
  std::mt19937 random(std::random_device{}());
  int kills = 0;
  for (bool done = false; !done;) {
    std::vector<std::string> arguments = {"--config", path("net.yaml"), "--set", "steps=0",
                                          "--set",    "epochs=60",      "--run", path("broken")};
    if (fs::exists(folder_ / "broken")) arguments.push_back("--resume");
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
