// The language of comments and pages: subject, verb, object (CONTRIBUTING.md, Style).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

namespace {

namespace fs = std::filesystem;

/// The fault of a line of a comment or a page; "" where it has none.
std::string fault_of(const std::string& line) {
  static const std::regex of(R"((^|[.:;!?] |//+<? ?|# |- |\| )Of [a-z])"), told(R"(\b(is|are|was|were) told\b)");
  if (line.find("Of ") != std::string::npos && std::regex_search(line, of)) return "a sentence begins with Of";
  if (line.find(" told") != std::string::npos && std::regex_search(line, told))
    return "something is told; say what is printed, reported or refused";
  return "";
}

bool is_ours(const fs::path& file) {
  for (const char* ending : {".h", ".cpp", ".cuh", ".md", ".tsv", ".yaml", ".py"})
    if (file.extension() == ending) return file.filename() != "language_test.cpp";
  return false;
}

TEST(Language, SentencesBeginWithTheirSubject) {
  int seen = 0;
  for (const char* folder :
       {"core", "backends", "layers", "optimizers", "models", "data", "configs", "apps", "tests", "docs"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(NIXIE_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file() || !is_ours(entry.path())) continue;
      std::ifstream text(entry.path());
      int number = 1;
      for (std::string line; std::getline(text, line); ++number)
        EXPECT_EQ(fault_of(line), "") << entry.path().string() << ":" << number << ": " << line;
      seen += number;
    }
  EXPECT_GT(seen, 50'000);
}

TEST(Language, FaultsAreFound) {
  EXPECT_NE(fault_of("// Of two lines the first."), "");
  EXPECT_NE(fault_of("One. Of two lines the first."), "");
  EXPECT_NE(fault_of("/// The file is told."), "");
  EXPECT_EQ(fault_of("// The first of two lines. Off it goes."), "");
}

}  // namespace
