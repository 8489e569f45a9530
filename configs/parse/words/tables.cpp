// Rows are `words<TAB>here<TAB>text`, comments begin with #.
#include "nixie/configs/parse/words/tables.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "nixie/configs/parse/words/embedded.h"

namespace nixie {
namespace {

/// `conv2d` for `conv?d`.
std::string with_axes(std::string word, char axes) {
  if (const std::size_t mark = word.find("?d"); mark != std::string::npos) word[mark] = axes;
  return word;
}

std::vector<OtherWord> rows_of(std::string_view name) {
  std::vector<OtherWord> all;
  const auto table = std::ranges::find(embedded_words(), name, &EmbeddedFile::name);
  std::istringstream lines{std::string(table->text)};
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

}  // namespace

const std::vector<OtherWord>& other_names() {
  static const std::vector<OtherWord> rows = rows_of("other_names.tsv");
  return rows;
}

const std::vector<OtherWord>& absent_words() {
  static const std::vector<OtherWord> rows = rows_of("absent_words.tsv");
  return rows;
}

const std::vector<OtherWord>& other_options() {
  static const std::vector<OtherWord> rows = rows_of("other_options.tsv");
  return rows;
}

const std::vector<OtherWord>& other_commands() {
  static const std::vector<OtherWord> rows = rows_of("other_commands.tsv");
  return rows;
}

}  // namespace nixie
