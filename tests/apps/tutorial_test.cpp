// The tutorial's commands and the recipes' sweep, run in order as by a reader, on small pictures in place of photos.
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/apps/pages.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

void write_photos(const TempFolder& folder) {
  for (int digit = 0; digit < 10; ++digit)
    for (int i = 0; i < 16; ++i)
      write_file(folder / fmt::format("photos/{}/IMG_{}.JPG", digit, 4500 + i),
                 jpeg(picture(40, 40, 0.6 * digit + 0.01 * i)));
}

TEST(Tutorial, ItsCommandsRun) {
  const Workplace folder;
  write_photos(folder);
  const std::vector<std::string> commands = blocks_of(fs::path(NIXIE_SOURCE_DIR) / "docs/tutorial.md", "$");
  EXPECT_GE(commands.size(), 12u);
  for (const std::string& command : commands) expect_ran(folder.run(command), 0);
  for (const char* file : {"runs/photos/1/report.html", "runs/photos/1/best.h5", "hands.onnx", "packed/train.packed"})
    EXPECT_TRUE(fs::exists(folder / file)) << file;
}

TEST(Recipes, TheSweepRuns) {
  const TempFolder folder;
  write_photos(folder);
  std::string script = blocks_of(fs::path(NIXIE_SOURCE_DIR) / "docs/recipes.md", "sh").at(0);
  const std::size_t epochs = script.find("epochs=3");
  ASSERT_NE(epochs, std::string::npos);
  script.replace(epochs, 8, "epochs=1");
  std::ofstream(folder / "sweep.sh") << "set -e\nPATH=" NIXIE_BINARY_DIR ":$PATH\n" << script;
  const std::string command = "cd '" + folder.path().string() + "' && sh sweep.sh > out 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << text_of(folder / "out");
  EXPECT_TRUE(fs::exists(folder / "rates.html"));
  for (const char* run : {"runs/rate-0.01", "runs/rate-0.03", "runs/rate-0.1"})
    EXPECT_THAT(text_of(folder / "out"), ContainsRegex("\n" + std::string(run) + " +4 "));
}

}  // namespace
}  // namespace nixie
