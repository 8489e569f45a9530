// Links of the manual: each leads to a file, and to a heading of it; promises name tests that there are.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = NIXIE_SOURCE_DIR;

std::vector<fs::path> pages() {
  std::vector<fs::path> pages;
  for (const fs::path& folder : {kRoot, kRoot / "docs"})
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
  return pages;
}

/// Lines outside fenced blocks.
std::vector<std::string> prose_of(const fs::path& page) {
  std::vector<std::string> lines;
  std::ifstream text(page);
  bool fenced = false;
  for (std::string line; std::getline(text, line);) {
    const bool is_fence = line.starts_with("```");
    fenced ^= is_fence;
    if (!fenced && !is_fence) lines.push_back(line);
  }
  return lines;
}

/// The anchors that a page names, and those of its headings, as GitHub makes them: small letters, digits, - and _,
/// spaces as -.
std::set<std::string> anchors_of(const fs::path& page) {
  static const std::regex named(R"re(<a id="(\w+)">)re");
  std::set<std::string> anchors;
  for (const std::string& line : prose_of(page)) {
    for (std::sregex_iterator each(line.begin(), line.end(), named), end; each != end; ++each)
      anchors.insert((*each)[1]);
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') continue;
    std::string anchor;
    for (const unsigned char c : line.substr(level + 1))
      if (c == ' ')
        anchor += '-';
      else if (std::isalnum(c) || c == '-' || c == '_')
        anchor += static_cast<char>(std::tolower(c));
    anchors.insert(anchor);
  }
  return anchors;
}

/// The fault of a link's target on a page; "" where it resolves.
std::string fault_of(const fs::path& page, const std::string& target) {
  if (target.starts_with("http")) return "";
  const std::size_t hash = target.find('#');
  const fs::path file = hash == 0 ? page : page.parent_path() / target.substr(0, hash);
  if (!fs::exists(file)) return "leads to no file";
  if (hash == std::string::npos || anchors_of(file).contains(target.substr(hash + 1))) return "";
  return "leads to no heading";
}

TEST(Links, OfTheManualLeadSomewhere) {
  const std::regex link(R"(\]\(([^)\s]+)\))");
  int seen = 0;
  for (const fs::path& page : pages())
    for (const std::string& line : prose_of(page))
      for (std::sregex_iterator each(line.begin(), line.end(), link), end; each != end; ++each, ++seen)
        EXPECT_EQ(fault_of(page, (*each)[1]), "") << page.filename().string() << ": " << (*each)[1];
  EXPECT_GT(seen, 50);
}

/// The names of all tests, as Suite.Name.
std::set<std::string> tests() {
  const std::regex declared(R"(TEST(_F|_P)?\((\w+), *(\w+)\))");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream text(entry.path());
    std::smatch found;
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("TEST") && std::regex_search(line, found, declared))
        names.insert(found.str(2) + "." + found.str(3));
  }
  return names;
}

// `Suite.*` and `Suite.Begin...` name several.
TEST(Links, OfPromisesToTestsNameThem) {
  const std::set<std::string> all = tests();
  const std::regex name(R"(`([A-Z]\w+\.(\*|[A-Z]\w+))(\.\.\.\w*|\*)?`)");
  int seen = 0;
  for (const std::string& line : prose_of(kRoot / "docs/reliability.md"))
    for (std::sregex_iterator each(line.begin(), line.end(), name), end; each != end; ++each, ++seen) {
      std::string begin = (*each)[1];
      if (begin.ends_with('*')) begin.pop_back();
      const auto first = all.lower_bound(begin);
      EXPECT_TRUE(first != all.end() && first->starts_with(begin)) << (*each)[0] << " is no test";
    }
  EXPECT_GT(seen, 80);
}

TEST(Links, ThatLeadNowhereAreTold) {
  const fs::path page = kRoot / "README.md";
  EXPECT_EQ(fault_of(page, "docs/tutorial.md"), "");
  EXPECT_EQ(fault_of(page, "#learn"), "");
  EXPECT_EQ(fault_of(page, "docs/data.md#shards"), "");
  EXPECT_EQ(fault_of(page, "docs/configuration.md#conv2d"), "");
  EXPECT_EQ(fault_of(page, "docs/none.md"), "leads to no file");
  EXPECT_EQ(fault_of(page, "docs/data.md#none"), "leads to no heading");
}

}  // namespace
