// The manual's code: C++ blocks and the table for numpy's users are in examples, which run; the commands and Python of
// docs/exchange.md run in order.
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/apps/pages.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/models/python.h"

namespace nixie {
namespace {

const fs::path kSource = NIXIE_SOURCE_DIR;

/// The lines without indentation and without empty ones.
std::string plain(const std::string& code) {
  std::string lines;
  for (const std::string& line : lines_of(code))
    if (const std::size_t at = line.find_first_not_of(' '); at != std::string::npos) lines += line.substr(at) + "\n";
  return lines;
}

TEST(Docs, CppBlocksStandInTheExamples) {
  std::string examples;
  for (const auto& entry : fs::directory_iterator(kSource / "apps/examples")) examples += plain(text_of(entry.path()));
  const std::vector<std::string> blocks = blocks_of(kSource / "docs/cpp.md", "cpp");
  EXPECT_GE(blocks.size(), 7u);
  for (const std::string& block : blocks) EXPECT_THAT(examples, HasSubstr(plain(block))) << "in no example:\n" << block;
}

// A table names each kind in bold; kinds with the same keys share a row of names.
TEST(Docs, TheReferenceHasTheSameKeysOnce) {
  std::istringstream page(text_of(kSource / "docs/configuration.md"));
  std::set<std::string> lists;
  std::string names, keys;
  for (std::string line; std::getline(page, line); keys += line + "\n")
    if (const bool is_kind = line.starts_with("| <a id="); is_kind || line.starts_with("## ")) {
      EXPECT_TRUE(names.empty() || lists.insert(keys).second) << names << " repeats keys";
      if (!is_kind) lists.clear();
      names = is_kind ? line : "", keys.clear(), line = is_kind ? line.substr(line.rfind("**")) : "";
    }
}

/// Returns the text between the first two backticks of each row's second cell.
std::vector<std::string> second_cells(const fs::path& page) {
  std::vector<std::string> cells;
  for (const std::string& line : lines_of(text_of(page))) {
    const std::size_t bar = line.find("` | `");
    if (line.starts_with("| `") && bar != std::string::npos)
      cells.push_back(line.substr(bar + 5, line.find('`', bar + 5) - bar - 5));
  }
  return cells;
}

TEST(Docs, NumpysTableIsComparedByAnExample) {
  const std::string example = text_of(kSource / "apps/examples/numpy.cpp");
  const std::vector<std::string> cells = second_cells(kSource / "docs/numpy.md");
  EXPECT_GE(cells.size(), 45u);
  for (const std::string& cell : cells) EXPECT_THAT(example, HasSubstr("  expect(" + cell + ", {")) << cell;
  expect_ran(run_program("numpy"), 0, "expressions, 0 differ from numpy\n");
}

TEST(Docs, TheGuideRuns) {
  const Workplace folder;
  expect_ran(folder.run("guide"), 0, "6 2 8 2 10 18\n", ContainsRegex("test accuracy (0\\.9|1\\.0)"), "arms 0 1\n",
             ContainsRegex("line .*e-1"));  // 1e-10 and less
}

TEST(Docs, AnErrorThatNothingCatchesLooksAsThePageSays) {
  const Ran ran = run_program("guide mistaken", "ulimit -c 0; ");
  EXPECT_EQ(ran.code, 134) << ran.output;
  const std::string page = text_of(kSource / "docs/cpp.md");
  for (const std::string& line : lines_of(ran.output)) EXPECT_THAT(page, HasSubstr("\n" + line + "\n"));
  EXPECT_THAT(ran.output, HasSubstr("what():  matmul: "));
}

void write_pictures(const TempFolder& folder) {
  for (int digit = 0; digit < 10; ++digit)
    for (int i = 0; i < 2; ++i)
      write_file(folder / fmt::format("photos/{}/IMG_{}.JPG", digit, i), jpeg(picture(40, 40, 0.6 * digit + 0.01 * i)));
  fs::create_directory_symlink(kSource / "configs", folder / "configs");
}

TEST(Docs, ClassifyAgreesWithPredict) {
  const Workplace folder;
  write_pictures(folder);
  const auto output_of = [&](const std::string& command, int code = 0) {
    return expect_ran(folder.run(command), code).output;
  };
  output_of(
      "trainer --config configs/photos.yaml --data photos --set epochs=1 --set data.image_folder.batch=4 --run run");
  output_of("trainer export net.h5 --run run");
  output_of("classify net.h5 nothing.jpg", 5);
  EXPECT_EQ(output_of("classify_in_threads net.h5 photos/*/*.JPG"), output_of("classify net.h5 photos/*/*.JPG"));
  const std::string predicted = output_of("trainer predict photos/3/IMG_0.JPG --topk 1 --checkpoint net.h5"),
                    best = predicted.substr(predicted.rfind("  ") + 2, 1);
  EXPECT_THAT(output_of("classify net.h5 photos/3/IMG_0.JPG"), StartsWith("photos/3/IMG_0.JPG: " + best + " ("))
      << predicted;
}

TEST(Docs, ExchangeRuns) {
  if (!python_has("torchvision, h5py, safetensors, onnxruntime"))
    GTEST_SKIP() << python() << " has no torchvision, h5py, safetensors and onnxruntime";
  const Workplace folder;
  write_pictures(folder);
  std::string script;  // Python's blocks share their names, so that each runs behind those before it
  int commands = 0;
  for (const Block& block : blocks_of(kSource / "docs/exchange.md")) {
    if (block.kind == "$") {
      ++commands;
      expect_ran(folder.run(block.text), 0);
    } else if (block.kind == "python") {
      script += block.text;
      std::ofstream(folder / "page.py") << script;
      ASSERT_EQ(std::system(fmt::format("cd '{}'; {} page.py", folder.path().string(), python()).c_str()), 0)
          << block.text;
    }
  }
  EXPECT_GE(commands, 4);
}

}  // namespace
}  // namespace nixie
