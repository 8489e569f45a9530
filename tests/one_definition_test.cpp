// Two types of one name in one namespace share the code of templates made of them, whichever of the two the linker
// takes: no compiler says so, and programs crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = NIXIE_SOURCE_DIR;

/// The types that a file defines in named namespaces, `nixie::Step`. Namespaces and their types begin lines, as
/// clang-format has them.
std::set<std::string> types_of(std::istream& text) {
  static const std::regex space(R"(namespace ?([\w:]*) \{)"), end(R"(\}  // namespace.*)"),
      type(R"((?:struct|class|enum class|enum|union) (\w+)(?: final)?(?: : [^;]*)? \{.*)");
  std::vector<std::string> within;
  std::set<std::string> types;
  for (std::string line; std::getline(text, line);) {
    std::smatch found;
    if (std::regex_match(line, found, space)) {
      within.push_back(found[1]);
    } else if (std::regex_match(line, end) && !within.empty()) {
      within.pop_back();
    } else if (std::regex_match(line, found, type)) {
      std::string name;
      bool is_hidden = false;
      for (const std::string& part : within) is_hidden |= part.empty(), name += part + "::";
      if (!is_hidden) types.insert(name + found[1].str());
    }
  }
  return types;
}

TEST(OneDefinition, TypesAreFound) {
  std::istringstream text(
      "struct A {\nnamespace nixie {\nnamespace {\nstruct Hidden {\n};\n}  // namespace\nclass B final : public A {\n"
      "  struct Inner {\nstruct Later;\nenum class E : int { one };\nnamespace cuda {\ntemplate <class T>\nstruct C "
      "{};\n"
      "}  // namespace cuda\n}  // namespace nixie\n");
  EXPECT_EQ(types_of(text), (std::set<std::string>{"A", "nixie::B", "nixie::E", "nixie::cuda::C"}));
}

TEST(OneDefinition, EveryTypeHasItsOwnName) {
  std::map<std::string, std::string> first;
  for (const char* folder : {"core", "backends", "layers", "optimizers", "models", "data", "configs", "apps"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string suffix = entry.path().extension(), path = fs::relative(entry.path(), kRoot);
      if ((suffix != ".h" && suffix != ".cpp") || path.starts_with("apps/examples/"))
        continue;  // programs of their own
      std::ifstream text(entry.path());
      for (const std::string& type : types_of(text)) {
        const auto [at, is_new] = first.emplace(type, path);
        EXPECT_TRUE(is_new) << type << " is defined in " << at->second << " and in " << path;
      }
    }
  EXPECT_TRUE(first.contains("nixie::Step") && first.contains("nixie::Picture"));
  EXPECT_GT(first.size(), 300u);
}

}  // namespace
