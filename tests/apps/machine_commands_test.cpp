// What the trainer says of the machine, and what it completes in a shell.
#include <gmock/gmock.h>

#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

using namespace nixie::test;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST(Doctor, SaysWhatARunWouldUse) {
  const TempFolder folder, cache;
  const std::string before = "cd '" + folder.path().string() + "'; NIXIE_CACHE='" + cache.path().string() + "' ";
  const Ran ran = run_program("trainer doctor", before);
  EXPECT_EQ(ran.code, 0) << ran.output;
  for (const char* part : {"ok    processor", "ok    memory", "ok    runs", "backend: auto trains on the "})
    EXPECT_THAT(ran.output, HasSubstr(part));
  EXPECT_THAT(ran.output, HasSubstr(folder.path().string()));
  EXPECT_THAT(ran.output, ContainsRegex("ok +HDF5 +version [0-9]+[.][0-9]+[.][0-9]+\n"));
#ifdef NIXIE_WITH_CUDA
  EXPECT_THAT(ran.output, ContainsRegex("(ok  |MEND) +GPU "));
  EXPECT_THAT(ran.output, HasSubstr("ok    kernel cache   " + cache.path().string()));
  // Where others may write, the cache is not used, and that is said with its remedy.
  std::filesystem::permissions(cache.path(), std::filesystem::perms::all);
  EXPECT_THAT(run_program("trainer doctor", before).output, ContainsRegex("MEND +kernel cache .*NIXIE_CACHE"));
#endif
}

TEST(Doctor, AFolderThatCannotBeWrittenIsAProblem) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere but in /proc";
  const Ran ran = run_program("trainer doctor", "cd /; ");
  EXPECT_EQ(ran.code, 3) << ran.output;
  EXPECT_THAT(ran.output, ContainsRegex("MEND +runs +/ cannot be written"));
}

// No relative path leads anywhere then; what needs none works.
TEST(Doctor, AWorkingFolderThatIsGoneIsNamed) {
  const TempFolder folder;
  std::ofstream(folder / "c.yaml") << "model: {mlp: {classes: 10}}\ndata: {glyphs: {train: 64, test: 64, batch: 32}}\n"
                                      "schedule: {constant: {rate: 0.1}}\nsteps: 1\n";
  const std::string config = " --config '" + (folder / "c.yaml").string() + "'";
  const std::string before =
      "mkdir -p '" + (folder / "gone").string() + "'; cd '" + (folder / "gone").string() + "'; rmdir ../gone; ";
  const struct {
    std::string command;
    int code;
  } kRows[] = {
      {"doctor", 3},
      {config, 8},
      {"--config c.yaml", 2},
      {"--resume run", 6},
      {"eval --checkpoint x.h5", 2},
      {"export q.onnx", 2},
      {"export q.onnx --checkpoint x.h5", 2},
      {"predict p.png", 2},
      {"data inspect pictures", 8},
      {"checkpoint inspect x.h5", 6},
  };
  for (const auto& [command, code] : kRows) {
    const Ran ran = run_program("trainer " + command, before);
    EXPECT_EQ(ran.code, code) << command << "\n" << ran.output;
    EXPECT_THAT(ran.output, ContainsRegex("the working folder is gone; change to another\n")) << command;
  }
  EXPECT_THAT(run_program("trainer doctor", before).output, HasSubstr("ok    memory"));
  EXPECT_EQ(run_program("trainer --dry-run" + config, before).code, 0);
}

/// What bash offers for the last of these words.
std::vector<std::string> completed(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += " '" + word + "'";
  const std::string script = "source <(" NIXIE_BINARY_DIR "/trainer completion) && COMP_WORDS=(" + list +
                             ") && COMP_CWORD=" + std::to_string(words.size() - 1) +
                             " && _nixie_trainer 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const TempFolder folder;
  std::ofstream(folder / "script") << script;
  const std::string out = (folder / "out").string();
  EXPECT_EQ(std::system(("bash '" + (folder / "script").string() + "' > '" + out + "'").c_str()), 0);
  std::vector<std::string> found;
  std::ifstream lines(out);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) found.push_back(line);
  return found;
}

TEST(Completion, OffersCommandsOptionsAndKeys) {
  using testing::Contains;
  using testing::ElementsAre;
  EXPECT_THAT(completed({"trainer", "pre"}), ElementsAre("predict"));
  EXPECT_THAT(completed({"trainer", ""}), testing::AllOf(Contains("train"), Contains("eval"), Contains("--config")));
  EXPECT_THAT(completed({"trainer", "--dr"}), ElementsAre("--dry-run"));
  EXPECT_THAT(completed({"trainer", "predict", "--t"}), ElementsAre("--topk"));
  EXPECT_THAT(completed({"trainer", "data", "in"}), ElementsAre("inspect"));
  EXPECT_THAT(completed({"trainer", "--config", "x.yaml", "--set", "eval"}), ElementsAre("evaluate_every="));
  EXPECT_THAT(completed({"trainer", "predict", "photo"}), ElementsAre());  // left to bash's files
}

}  // namespace
}  // namespace nixie
