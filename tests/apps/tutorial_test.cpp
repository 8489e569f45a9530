// The tutorial's commands, run in its order as a reader would, on small pictures in place of photographs.
#include <gmock/gmock.h>

#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;
using namespace nixie::test;

/// The lines of the page that begin with `$ trainer`, without the prompt; a backslash at the end joins two.
std::vector<std::string> commands_of(const fs::path& page) {
  std::vector<std::string> commands;
  std::istringstream text(text_of(page));
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("$ trainer ")) continue;
    std::string command = line.substr(2);
    while (command.ends_with('\\') && std::getline(text, line)) command.back() = ' ', command += line;
    commands.push_back(command);
  }
  return commands;
}

TEST(Tutorial, ItsCommandsRun) {
  const TempFolder folder;
  for (int digit = 0; digit < 10; ++digit)
    for (int i = 0; i < 16; ++i)
      write_file(folder / fmt::format("photos/{}/IMG_{}.JPG", digit, 4500 + i),
                 jpeg(picture(40, 40, 0.6 * digit + 0.01 * i)));
  const std::vector<std::string> commands = commands_of(fs::path(NIXIE_SOURCE_DIR) / "docs/tutorial.md");
  EXPECT_GE(commands.size(), 12u);
  for (const std::string& command : commands) {
    const Ran ran = run_program(command, "cd '" + folder.path().string() + "'; ");
    EXPECT_EQ(ran.code, 0) << command << "\n" << ran.output;
  }
  for (const char* file : {"runs/photos/1/report.html", "runs/photos/1/best.h5", "hands.onnx", "packed/train.packed"})
    EXPECT_TRUE(fs::exists(folder / file)) << file;
}

}  // namespace
}  // namespace nixie
