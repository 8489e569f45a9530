// Rows are `words<TAB>here<TAB>text`; a line that begins with # is a comment.
#include "nixie/configs/parse/words/tables.h"

#include <array>
#include <map>
#include <sstream>

#include "nixie/configs/parse/words/embedded.h"

namespace nixie {
namespace {

/// `conv2d` for `conv?d`.
std::string with_axes(std::string word, char axes) {
  if (const std::size_t mark = word.find("?d"); mark != std::string::npos) word[mark] = axes;
  return word;
}

std::vector<OtherWord> rows_of(std::string_view table) {
  std::vector<OtherWord> all;
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream row(line);
    std::array<std::string, 3> columns;
    for (std::string& column : columns) std::getline(row, column, '\t');
    std::istringstream words(columns[0]);
    for (std::string word; words >> word;)
      for (const char axes : std::string_view(word.find('?') == std::string::npos ? "2" : "213"))
        all.push_back({with_axes(word, axes), with_axes(columns[1], axes), columns[2]});
  }
  return all;
}

const std::vector<OtherWord>& table(const std::string& file) {
  static const auto tables = [] {
    std::map<std::string, std::vector<OtherWord>> all;
    for (const EmbeddedFile& each : embedded_words()) all.emplace(each.name, rows_of(each.text));
    return all;
  }();
  return tables.at(file);
}

}  // namespace

const std::vector<OtherWord>& other_names() { return table("other_names.tsv"); }
const std::vector<OtherWord>& absent_words() { return table("absent_words.tsv"); }
const std::vector<OtherWord>& other_options() { return table("other_options.tsv"); }
const std::vector<OtherWord>& other_commands() { return table("other_commands.tsv"); }
const std::vector<OtherWord>& neon_types() { return table("neon_types.tsv"); }

}  // namespace nixie
