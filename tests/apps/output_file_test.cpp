// Outputs of every command: links, folders and files that the command reads stay what they are, also with --overwrite.
#include "nixie/tests/apps/colour_run.h"

namespace nixie {
namespace {

class OutputFile : public ColourRun {};

/// Every file with its bytes and every link with where it leads.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all[entry.path().string()] = entry.is_symlink()        ? "link to " + fs::read_symlink(entry.path()).string()
                                 : entry.is_regular_file() ? text_of(entry.path())
                                                           : "";
  return all;
}

TEST_F(OutputFile, TakesNoPlaceOfALinkAFolderOrAnInput) {
  fs::create_directory(path("g"));
  std::ofstream(path("mine")) << "mine";
  for (const char* ending : {"h5", "html", "json", "onnx", "safetensors"}) {
    fs::create_directory_symlink("g", path("folder.") + ending);
    fs::create_symlink("/nodisk/x", path("lost.") + ending);
    fs::create_symlink("mine", path("linked.") + ending);
    fs::create_directory(path("is.") + ending);
    fs::create_hard_link(path("net.yaml"), path("net.") + ending);
    fs::create_hard_link(path("run/metrics.csv"), path("curves.") + ending);
    fs::create_hard_link(path("run/best.h5"), path("best.") + ending);
  }
  fs::create_directory_symlink("g", path("gl"));
  for (const char* name : {"train.packed", "test.packed"}) fs::create_symlink("/nodisk/x", path("g/") + name);
  fs::create_symlink("mine", path("page.md"));
  std::ofstream(path("table.json")) << R"({"command": "nets", "rows": []})";
  fs::create_hard_link(path("table.json"), path("table.svg"));
  const std::string run = " --run run", config = " --config net.yaml";
  const struct {
    std::string command, input;
    std::vector<std::string> endings;
  } kOutputs[] = {{"trainer export" + run + " ", "best", {"onnx", "safetensors", "h5"}},
                  {"trainer export" + config + " --set init_from=run/best.h5 ", "best", {"safetensors"}},
                  {"trainer compare run --html ", "curves", {"html"}},
                  {"trainer profile" + config + " --trace ", "net", {"json"}},
                  {"trainer checkpoint convert run/best.h5 ", "", {"h5", "safetensors"}},
                  {"benchmark nets --backend cpu" + config + " --json ", "net", {"json"}}};
  struct Case {
    std::string arguments, expected;
  };
  std::vector<Case> cases = {{"trainer compare run --overwrite --html gl", "gl does not end in .html"},
                             {"trainer data pack colours g", "g/train.packed is a link to /nodisk/x, which is not"},
                             {"benchmark show table.json --page page.md", "page.md is a link to mine; name another"},
                             {"benchmark show table.json --overwrite --plot table.svg",
                              "table.svg is the same file as table.json, which this command uses; name another file"}};
  for (const auto& [command, input, endings] : kOutputs)
    for (const std::string& ending : endings) {
      const std::string overwrite = command.find("convert") == std::string::npos ? " --overwrite" : "";
      const auto add = [&](const std::string& name, const std::string& expected) {
        for (const std::string& how : {std::string(), overwrite})
          cases.push_back({command + path(name + "." + ending) + how, expected});
      };
      add("folder", "folder." + ending + " is a link to g; name another file, or remove the link\n");
      add("lost", "lost." + ending + " is a link to /nodisk/x, which is not there; name another file, or remove the");
      add("linked", "linked." + ending + " is a link to mine; name another file, or remove the link\n");
      add("is", "is." + ending + " is a folder; name another file\n");
      if (!input.empty() && ending != "h5")  // which is refused as a run's
        cases.push_back({command + path(input + "." + ending) + overwrite, "is the same file as "});
    }
  const auto before = contents(folder_->path());
  for (const auto& [arguments, expected] : cases) {
    const Ran ran = folder_->run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << "\n" << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(expected)) << arguments;
    EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << ran.output;
  }
  EXPECT_TRUE(contents(folder_->path()) == before);
}

}  // namespace
}  // namespace nixie
