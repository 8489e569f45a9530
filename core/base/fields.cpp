// Text of options as YAML reads it back, and their ranges.
#include "nixie/core/base/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>

#include "nixie/core/base/check_fields.h"

namespace nixie {

std::vector<int> PerAxis::expand(int axes, const char* what) const {
  check(!is_same(), what, " is same, expected numbers");
  if (values.size() == 1) return std::vector<int>(static_cast<std::size_t>(axes), values[0]);
  check(static_cast<int>(values.size()) == axes, what, " has ", values.size(), " numbers, expected 1 or ", axes);
  return values;
}

template <class T>
requires std::is_arithmetic_v<T> std::string field_text(T value) { return fmt::format("{}", value); }
template std::string field_text(bool);
template std::string field_text(int);
template std::string field_text(std::int64_t);
template std::string field_text(std::uint64_t);
template std::string field_text(float);
template std::string field_text(double);

std::string field_text(const PerAxis& value) {
  return value.is_same() ? "same" : value.values.size() == 1 ? field_text(value.values[0]) : field_text(value.values);
}

void append_entry(std::string& text, const char* key, const std::string& value) {
  if (text.size() > 1) text += ", ";
  if (key) text.append(key).append(": ");
  text += value;
}

std::string field_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\')
      text += std::string("\\") + c;
    else if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return text + '"';
}

std::vector<std::string> words_of(const Range& range) {
  std::istringstream text(range.words);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::string text_of(const Range& range) {
  return std::isinf(range.high)  ? fmt::format("a number from {} up", range.low)
         : std::isinf(range.low) ? fmt::format("a number up to {}", range.high)
                                 : fmt::format("a number from {} to {}", range.low, range.high);
}

void check_value(const char* key, double value, const Range& range) {
  if (!holds(range, value)) fail(Fault::usage, key, " is ", value, ", expected ", text_of(range));
}
void check_value(const char* key, const std::vector<int>& values, const Range& range) {
  for (const int value : values) check_value(key, value, range);
}
void check_value(const char* key, const std::vector<double>& values, const Range& range) {
  for (const double value : values) check_value(key, value, range);
}
void check_value(const char* key, const std::string& word, const Range& range) {
  const std::vector<std::string> words = words_of(range);
  if (!words.empty() && std::ranges::find(words, word) == words.end())
    fail(Fault::usage, key, " is ", word, ", expected ", fmt::format("{}", fmt::join(words, " or ")));
}

}  // namespace nixie
