// The strict scalar parser and the texts of problems.
#include "nixie/configs/parse/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "nixie/configs/parse/places.h"
#include "nixie/core/base/check_fields.h"
#include "nixie/core/base/working_folder.h"

namespace nixie {
namespace {

constexpr std::size_t kShown = 60;       // bytes of a value that a message repeats
constexpr std::size_t kShownWords = 32;  // known words that a message with advice lists
constexpr std::size_t kShownOwners = 4;  // owners that a message names

// On one line, whatever is in it.
std::string shown(const std::string& text) {
  return field_text(text.size() <= kShown ? text : text.substr(0, kShown) + "...");
}

std::string describe(const Tree& tree) {
  switch (tree.kind) {
    case Tree::Kind::null:
      return "empty";
    case Tree::Kind::list:
      return "a list";
    case Tree::Kind::map:
      return "a map";
    case Tree::Kind::scalar:
      break;
  }
  return shown(tree.text);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A number without its sign; "" for one with a leading zero.
std::string_view unsigned_part(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]) ? "" : text;
}

bool is_integer(std::string_view text) {
  const std::string_view digits = unsigned_part(text);
  return !digits.empty() && std::ranges::all_of(digits, is_digit);
}

/// `-1`, `0.5`, `.5`, `5.`, `5e-4`
bool is_number(std::string_view text) {
  const std::string_view digits = unsigned_part(text);
  if (digits.empty() || !(is_digit(digits[0]) || digits[0] == '.')) return false;
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error != std::errc::invalid_argument && end == digits.data() + digits.size();
}

/// from_chars of all the text, which has the form of a number; false where T cannot hold it.
template <class T>
bool parse(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  value = parsed;
  return true;
}

template <class T>
void read_integer(const Tree& tree, T& value, Problems& problems) {
  const bool has_form = tree.is_scalar() && is_integer(tree.text);
  if (!has_form || tree.quoted) {
    problems.add_unexpected(tree, "an integer", has_form);
  } else if (!parse(tree.text, value)) {
    problems.add_unexpected(
        tree, fmt::format("an integer from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
}

/// Too small for T becomes 0 or the nearest subnormal; too large is a problem.
template <class T>
void read_floating(const Tree& tree, T& value, Problems& problems) {
  const bool has_form = tree.is_scalar() && is_number(tree.text);
  if (!has_form || tree.quoted) return problems.add_unexpected(tree, "a finite number", has_form);
  const double parsed = std::strtod(tree.text.c_str(), nullptr);
  const T rounded = static_cast<T>(parsed);
  if (std::isfinite(rounded))
    value = rounded;
  else
    problems.add_unexpected(tree, fmt::format("a number up to {}", std::numeric_limits<T>::max()));
}

/// Without `.`, and without `..` behind a folder that is no link: behind a link it leads out of the link's target.
std::filesystem::path normal_path(const std::filesystem::path& path) {
  std::filesystem::path normal;
  std::error_code ignored;
  for (const std::filesystem::path& part : path) {
    const bool goes_up = part == ".." && normal.has_filename() && normal.filename() != "..";
    if (part == ".") continue;
    if (goes_up && !std::filesystem::is_symlink(normal, ignored))
      normal = normal.parent_path();
    else
      normal /= part;
  }
  return normal;
}

}  // namespace

void Problems::add_unexpected(const Tree& tree, const std::string& expected, bool would_do_unquoted) {
  const std::string path = Scope::path();
  add(tree.place, path.empty() ? "the value" : path, " is ", describe(tree),
      would_do_unquoted ? " (the quotes make it a string)" : "", ", expected ", expected);
}

std::string Problems::text() const {
  std::vector<Line> sorted = lines_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Line& a, const Line& b) {
    return a.place.line != b.place.line ? a.place.line < b.place.line : a.place.column < b.place.column;
  });
  std::string text;
  for (const Line& line : sorted) text += (text.empty() ? "" : "\n") + to_string(line.place) + ": " + line.text;
  return text;
}

void Problems::raise() const {
  if (!empty()) throw Error(Fault::usage, text());
}

void add_unknown(const Place& place, const char* what, const std::string& word, const std::vector<std::string>& known,
                 Problems& problems, const std::vector<std::string>& owners) {
  const std::string path = Scope::path();
  const std::string of = known.empty()       ? "none"
                         : known.size() == 1 ? known[0]
                                             : fmt::format("one of {}", fmt::join(known, ", "));
  std::string advice = did_you_mean(word, known);
  if (advice.empty() && !owners.empty()) {
    const bool are_many = owners.size() > kShownOwners;
    const std::vector<std::string> named(owners.begin(), are_many ? owners.begin() + kShownOwners : owners.end());
    advice = fmt::format("; {} is a key of {}{}: write {}{}{}.{}", word, fmt::join(named, ", "),
                         are_many ? ", ..." : "", path, path.empty() ? "" : ".", owners[0], word);
  }
  const bool is_list_short = known.size() <= kShownWords || advice.empty();  // a long one would hide the advice
  problems.add(place, "unknown ", what, " ", shown(word), path.empty() ? "" : " in " + path,
               is_list_short ? ", expected " + of : "", advice);
}

void check_number(const Tree& tree, double value, const Range& range, Problems& problems) {
  if (!holds(range, value)) problems.add(tree.place, Scope::path(), " is ", tree.text, ", expected ", text_of(range));
}

void check_range(const Tree& tree, const std::string& word, const Range& range, Problems& problems) {
  const std::vector<std::string> words = words_of(range);
  if (words.empty() || std::find(words.begin(), words.end(), word) != words.end()) return;
  problems.add(tree.place, "unknown ", Scope::path(), " ", shown(word), ", expected one of ",
               fmt::format("{}", fmt::join(words, ", ")), did_you_mean(word, words));
}

void read_value(const Tree& tree, bool& value, Problems& problems) {
  const bool has_form = tree.is_scalar() && (tree.text == "true" || tree.text == "false");
  if (!has_form || tree.quoted) return problems.add_unexpected(tree, "true or false", has_form);
  value = tree.text == "true";
}

void read_value(const Tree& tree, int& value, Problems& problems) { read_integer(tree, value, problems); }
void read_value(const Tree& tree, std::int64_t& value, Problems& problems) { read_integer(tree, value, problems); }
void read_value(const Tree& tree, std::uint64_t& value, Problems& problems) { read_integer(tree, value, problems); }
void read_value(const Tree& tree, float& value, Problems& problems) { read_floating(tree, value, problems); }
void read_value(const Tree& tree, double& value, Problems& problems) { read_floating(tree, value, problems); }

void read_value(const Tree& tree, std::string& value, Problems& problems) {
  if (tree.is_scalar())
    value = tree.text;
  else
    problems.add_unexpected(tree, "a word or \"text\"");
}

Path resolved_path(const std::filesystem::path& path, const Place& place) {
  const std::string text = path.string(), expanded = at_place(place, [&] { return with_home(text); });
  if (expanded != text) return normal_path(absolute_path(expanded));
  // A pipe or a descriptor (/dev/stdin) is in no folder.
  const bool is_in_file =
      place.source && place.line > 0 && !place.source->starts_with("/dev/") && !std::filesystem::is_fifo(*place.source);
  const std::filesystem::path folder =
      is_in_file ? std::filesystem::path(*place.source).parent_path() : std::filesystem::path();
  return normal_path(absolute_path(folder / path));
}

void read_value(const Tree& tree, Path& value, Problems& problems) {
  if (!tree.is_scalar() || tree.text.empty()) return problems.add_unexpected(tree, "a path");
  if (tree.text.find('\0') != std::string::npos)  // the system would read the path only up to there
    return problems.add_unexpected(tree, "a path, which holds no byte of 0");
  value = resolved_path(tree.text, tree.place);
}

void read_value(const Tree& tree, PerAxis& value, Problems& problems) {
  if (tree.is_list() && !tree.items.empty()) return read_value(tree, value.values, problems);
  if (!tree.is_scalar()) return problems.add_unexpected(tree, "an integer or a list of them");
  if (tree.text == "same") return static_cast<void>(value = PerAxis::same());
  if (const std::string meant = did_you_mean(tree.text, {"same"}); !meant.empty())
    return problems.add_unexpected(tree, "an integer" + meant);
  int number = 0;
  const std::size_t before = problems.size();
  read_value(tree, number, problems);
  if (problems.size() == before) value = PerAxis(number);
}

std::optional<Choice> split_choice(const Tree& tree, Problems& problems, const std::vector<std::string>& known) {
  if (tree.is_scalar()) return Choice{tree.text, tree.place, make_tree(tree.place)};
  if (tree.is_map() && tree.entries.size() == 1)
    return Choice{tree.entries[0].key, tree.entries[0].place, tree.entries[0].value};
  if (tree.is_map() && tree.entries.size() > 1) {
    std::vector<std::string> names;
    for (const Tree::Entry& entry : tree.entries) names.push_back(entry.key);
    const std::string path = Scope::path();
    const auto other = std::ranges::find_if(
        names, [&](const std::string& name) { return std::ranges::find(known, name) == known.end(); });
    std::string advice = known.empty() || other == names.end() ? "" : did_you_mean(*other, known);
    if (advice.empty() && tree.entries[1].place.line == 0)  // of --set, beside what the file has
      advice = fmt::format("; to replace {} write --set '{}={{{}: {{...}}}}'", names[0], path, names[1]);
    problems.add(tree.entries[1].place, path.empty() ? "the value" : path, " names ",
                 fmt::format("{}", fmt::join(names, " and ")), ", expected one {name: {fields}}", advice);
  } else {
    problems.add_unexpected(tree, "a name or {name: {fields}}");
  }
  return std::nullopt;
}

}  // namespace nixie
