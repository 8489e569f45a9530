// The manual's code: C++ blocks and the table for numpy's users are in examples, which run; the commands and Python of
// docs/exchange.md run in order.
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/models/python.h"

namespace nixie {
namespace {

const fs::path kSource = NIXIE_SOURCE_DIR;

struct Block {
  std::string kind;  ///< `cpp`, `python`, `$` for a command
  std::string text;
};

/// Fenced blocks of a kind, and each command of a fenced block; a backslash at its end joins two lines.
std::vector<Block> blocks_of(const fs::path& page) {
  std::vector<Block> blocks;
  std::istringstream text(text_of(page));
  bool inside = false, kept = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      kept = inside && line.size() > 3;
      if (kept) blocks.push_back({line.substr(3), ""});
    } else if (kept) {
      blocks.back().text += line + "\n";
    } else if (inside && line.starts_with("$ ")) {
      std::string command = line.substr(2);
      while (command.ends_with('\\') && std::getline(text, line)) command.back() = ' ', command += line;
      blocks.push_back({"$", command});
    }
  }
  return blocks;
}

/// The lines without indentation and without empty ones.
std::string plain(const std::string& code) {
  std::string lines;
  std::istringstream text(code);
  for (std::string line; std::getline(text, line);)
    if (const std::size_t at = line.find_first_not_of(' '); at != std::string::npos) lines += line.substr(at) + "\n";
  return lines;
}

TEST(Docs, CppBlocksStandInTheExamples) {
  std::string examples;
  for (const auto& entry : fs::directory_iterator(kSource / "apps/examples")) examples += plain(text_of(entry.path()));
  int seen = 0;
  for (const Block& block : blocks_of(kSource / "docs/cpp.md")) {
    if (block.kind != "cpp") continue;
    ++seen;
    EXPECT_THAT(examples, HasSubstr(plain(block.text))) << "in no example:\n" << block.text;
  }
  EXPECT_GE(seen, 7);
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
  std::istringstream text(text_of(page));
  for (std::string line; std::getline(text, line);) {
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
  const TempFolder folder;
  expect_ran(run_program("guide", "cd '" + folder.path().string() + "'; "), 0, "6 2 8 2 10 18\n",
             ContainsRegex("test accuracy (0\\.9|1\\.0)"), "arms 0 1\n",
             ContainsRegex("line .*e-1"));  // 1e-10 and less
}

TEST(Docs, AnErrorThatNothingCatchesLooksAsThePageSays) {
  const Ran ran = run_program("guide mistaken", "ulimit -c 0; ");
  EXPECT_EQ(ran.code, 134) << ran.output;
  std::istringstream lines(ran.output);
  const std::string page = text_of(kSource / "docs/cpp.md");
  for (std::string line; std::getline(lines, line);) EXPECT_THAT(page, HasSubstr("\n" + line + "\n"));
  EXPECT_THAT(ran.output, HasSubstr("what():  matmul: "));
}

void write_pictures(const TempFolder& folder) {
  for (int digit = 0; digit < 10; ++digit)
    for (int i = 0; i < 2; ++i)
      write_file(folder / fmt::format("photos/{}/IMG_{}.JPG", digit, i), jpeg(picture(40, 40, 0.6 * digit + 0.01 * i)));
  fs::create_directory_symlink(kSource / "configs", folder / "configs");
}

TEST(Docs, ClassifyAgreesWithPredict) {
  const TempFolder folder;
  write_pictures(folder);
  const std::string there = "cd '" + folder.path().string() + "'; ";
  const std::vector<std::string> commands = {
      "trainer --config configs/photos.yaml --data photos --set epochs=1 --set data.image_folder.batch=4 --run run",
      "trainer export net.h5 --run run",
      "classify net.h5 photos/3/IMG_0.JPG",
      "classify net.h5 nothing.jpg",
      "classify net.h5 photos/*/*.JPG",
      "classify_in_threads net.h5 photos/*/*.JPG"};
  const int codes[] = {0, 0, 0, 5, 0, 0};
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const Ran ran = run_program(commands[i], there);
    ASSERT_EQ(ran.code, codes[i]) << commands[i] << "\n" << ran.output;
    outputs.push_back(ran.output);
  }
  const std::string& output = outputs[2];
  EXPECT_EQ(outputs[5], outputs[4]);  // four threads see what one sees
  const Ran predicted = run_program("trainer predict photos/3/IMG_0.JPG --topk 1 --checkpoint net.h5", there);
  const std::string best = predicted.output.substr(predicted.output.rfind("  ") + 2, 1);
  EXPECT_THAT(output, StartsWith("photos/3/IMG_0.JPG: " + best + " (")) << predicted.output;
}

TEST(Docs, ExchangeRuns) {
  if (!python_has("torchvision, h5py, safetensors, onnxruntime"))
    GTEST_SKIP() << python() << " has no torchvision, h5py, safetensors and onnxruntime";
  const TempFolder folder;
  write_pictures(folder);
  const std::string there = "cd '" + folder.path().string() + "'; ";
  std::string script;  // Python's blocks share their names, so that each runs behind those before it
  int commands = 0;
  for (const Block& block : blocks_of(kSource / "docs/exchange.md")) {
    if (block.kind == "$") {
      ++commands;
      const Ran ran = run_program(block.text, there);
      ASSERT_EQ(ran.code, 0) << block.text << "\n" << ran.output;
    } else if (block.kind == "python") {
      script += block.text;
      std::ofstream(folder / "page.py") << script;
      ASSERT_EQ(std::system((there + python() + " page.py").c_str()), 0) << block.text;
    }
  }
  EXPECT_GE(commands, 4);
}

}  // namespace
}  // namespace nixie
