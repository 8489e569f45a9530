// The trainer's lines about the machine, and its completions in a shell.
#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

TEST(Doctor, SaysWhatARunWouldUse) {
  const Workplace folder;
  const TempFolder cache;
  const std::string before = "NIXIE_CACHE='" + cache.path().string() + "' ";
  const Ran ran = expect_ran(folder.trainer("doctor", before), 0, "ok    processor", "ok    memory", "ok    runs",
                             "backend: auto trains on the ", folder.path().string(),
                             ContainsRegex("ok +HDF5 +version [0-9]+[.][0-9]+[.][0-9]+\n"));
#ifdef NIXIE_WITH_CUDA
  EXPECT_THAT(ran.output,
              HasParts(ContainsRegex("(ok  |MEND) +GPU "), "ok    kernel cache   " + cache.path().string()));
  // Where others may write, the cache is not used, and that is said with its remedy.
  fs::permissions(cache.path(), fs::perms::all);
  EXPECT_THAT(folder.trainer("doctor", before).output, ContainsRegex("MEND +kernel cache .*NIXIE_CACHE"));
#endif
}

TEST(Doctor, AFolderThatCannotBeWrittenIsAProblem) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere but in /proc";
  expect_ran(run_program("trainer doctor", "cd /; "), 3, ContainsRegex("MEND +runs +/ cannot be written"));
}

// No relative path leads anywhere then; what needs none works.
TEST(Doctor, AWorkingFolderThatIsGoneIsNamed) {
  const Workplace folder;
  folder.write("c.yaml",
               "model: {mlp: {classes: 10}}\ndata: {glyphs: {train: 64, test: 64, batch: 32}}\n"
               "schedule: {constant: {rate: 0.1}}\nsteps: 1\n");
  const std::string config = " --config '" + (folder / "c.yaml").string() + "'";
  const std::string gone = "the working folder is gone; change to another\n";
  expect_runs(
      [&](const std::string& arguments) { return folder.trainer(arguments, "mkdir gone; cd gone; rmdir ../gone; "); },
      {{"doctor", 3, gone},
       {"doctor", 3, "ok    memory"},
       {config, 8, gone},
       {"--config c.yaml", 2, gone},
       {"--resume run", 6, gone},
       {"eval --checkpoint x.h5", 2, gone},
       {"export q.onnx", 2, gone},
       {"export q.onnx --checkpoint x.h5", 2, gone},
       {"predict p.png", 2, gone},
       {"data inspect pictures", 8, gone},
       {"checkpoint inspect x.h5", 6, gone},
       {"--dry-run" + config, 0, ""}});
}

using Words = std::vector<std::string>;

const std::string kTrainer = NIXIE_BINARY_DIR "/trainer";

std::string quoted(const Words& words) {
  std::string list;
  for (const std::string& word : words) list += " '" + word + "'";
  return list;
}

/// How a shell is asked what it offers for a command line.
struct Shell {
  std::string program, begin;                   // what its script begins with
  std::string (*ask)(const Words& words) = {};  // prints the words
};

// Readline splits words at `=`, and the reply replaces the part behind it.
std::string ask_bash(const Words& words) {
  Words split = words;
  const std::string last = words.back();
  const std::size_t at = last.find('=');
  if (at != std::string::npos) {
    split.back() = last.substr(0, at);
    split.emplace_back("=");
    if (at + 1 < last.size()) split.push_back(last.substr(at + 1));
  }
  return fmt::format(
      "COMP_WORDS=({}); COMP_CWORD={}; _nixie_trainer; for w in \"${{COMPREPLY[@]}}\"; do echo '{}'$w; done",
      quoted(split), split.size() - 1, at == std::string::npos ? "" : last.substr(0, at + 1));
}

std::string ask_zsh(const Words& words) {
  return fmt::format("words=({}); CURRENT=$#words; _nixie_trainer", quoted(words));
}

std::string ask_fish(const Words& words) { return fmt::format("complete -C '{}'", fmt::join(words, " ")); }

// Outside of its editor zsh has no compadd: the test's prints what it is given. Fish offers files, so there are none.
const Shell kShells[] = {
    {"bash", "source <('" + kTrainer + "' completion bash); compopt() { :; }", ask_bash},
    {"zsh -f",
     "compdef() { :; }; _files() { :; }; compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- $@; }\n"
     "source <('" +
         kTrainer + "' completion zsh)",
     ask_zsh},
    {"fish --no-config", "'" + kTrainer + "' completion fish | source; mkdir empty; cd empty", ask_fish},
};

/// The shell's offers for each of these command lines.
std::vector<Words> offered_by(const Shell& shell, const std::vector<Words>& lines) {
  const TempFolder folder;
  const std::string end = "end of a line";
  std::ofstream script(folder / "script");
  script << shell.begin << "\n";
  for (const Words& line : lines) script << shell.ask(line) << "\necho " << end << "\n";
  script.close();
  EXPECT_EQ(std::system(("cd '" + folder.path().string() + "' && " + shell.program + " script > out 2>&1").c_str()), 0);
  std::vector<Words> offered(1);
  std::ifstream out(folder / "out");
  for (std::string line; std::getline(out, line);)
    if (line == end)
      offered.emplace_back();
    else
      offered.back().push_back(line);
  offered.pop_back();
  return offered;
}

TEST(Completion, OffersCommandsOptionsKeysAndValues) {
  using testing::Contains;
  using testing::IsSupersetOf;
  using Offered = testing::Matcher<Words>;
  const struct {
    Words typed;
    Offered offered;
  } kRows[] = {
      {{"pre"}, ElementsAre("predict")},
      {{""}, AllOf(Contains("train"), Contains("eval"), Contains("find-rate"), Contains("--config"))},
      {{"--dr"}, ElementsAre("--dry-run")},
      {{"predict", "--t"}, ElementsAre("--topk")},
      {{"data", "in"}, ElementsAre("inspect")},
      {{"data", "inspect", "in"}, ElementsAre()},
      {{"completion", "f"}, ElementsAre("fish")},
      {{"eval", "--split", "t"}, ElementsAre("test", "train")},
      {{"list", "opt"}, ElementsAre("optimizers")},
      {{"--config", "configs/re"}, IsSupersetOf({"configs/recipes/mnist.yaml", "configs/resnet18.yaml"})},
      {{"--config", "x.yaml", "--set", "evaluate"}, ElementsAre("evaluate_every=")},
      {{"train", "--set", "precision=f"}, ElementsAre("precision=fp32", "precision=fp16", "precision=fp16_pure")},
      {{"eval", "--set", "backend="}, ElementsAre("backend=auto", "backend=cpu", "backend=cuda")},
      {{"--set", "model=les"}, ElementsAre()},
      {{"--set", "model=lenet"}, ElementsAre("model=lenet")},
      {{"--set", "schedule=co"}, ElementsAre("schedule=constant", "schedule=cosine")},
      {{"--set", "mirror_average="}, ElementsAre("mirror_average=true", "mirror_average=false")},
      {{"predict", "photo"}, ElementsAre()},  // left to the shell's files
      {{"--run", ""}, ElementsAre()},
  };
  std::vector<Words> lines, all;
  for (const auto& [typed, offered] : kRows) {
    lines.push_back({kTrainer});
    lines.back().insert(lines.back().end(), typed.begin(), typed.end());
    all.push_back(completions(fmt::format("{}", fmt::join(lines.back(), "\x1f")), command_names(), for_each_command));
    EXPECT_THAT(all.back(), offered) << testing::PrintToString(typed);
  }
  for (const Shell& shell : kShells) {
    const std::string name = shell.program.substr(0, shell.program.find(' '));
    if (std::system(("command -v " + name + " >/dev/null").c_str()) != 0) continue;
    const std::vector<Words> offered = offered_by(shell, lines);
    ASSERT_EQ(offered.size(), lines.size()) << name;
    for (std::size_t i = 0; i < lines.size(); ++i)
      EXPECT_THAT(offered[i], testing::UnorderedElementsAreArray(all[i]))
          << name << " " << testing::PrintToString(lines[i]);
  }
}

}  // namespace
}  // namespace nixie
