// check_fields: checks an options struct filled in by C++ code against the ranges of its field list.
#pragma once

#include "nixie/core/base/fields.h"

namespace nixie {

/// Whether the range holds the value, ends included.
inline bool holds(const Range& range, double value) { return value >= range.low && value <= range.high; }

/// The words of a text's range.
std::vector<std::string> words_of(const Range& range);

/// `a number from LOW up`, `a number from LOW to HIGH`
std::string text_of(const Range& range);

/// Throws `KEY is VALUE, expected a number from LOW up` unless the value, or each value of a list, is in range.
void check_value(const char* key, double value, const Range& range);
void check_value(const char* key, const std::vector<int>& values, const Range& range);
void check_value(const char* key, const std::vector<double>& values, const Range& range);
/// Throws `KEY is WORD, expected one of ...`.
void check_value(const char* key, const std::string& word, const Range& range);
inline void check_value(const char* key, const PerAxis& value, const Range& range) {
  check_value(key, value.values, range);
}

/// Throws a usage Error for the first number of the struct, or of a list in it, or text, outside its field's range.
template <Options T>
void check_fields(const T& options) {
  for_each_field<T>([&](const auto& each) {
    using Value = std::remove_cvref_t<decltype(options.*each.member)>;
    constexpr bool is_number = std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>;
    if constexpr (is_number)
      check_value(each.key, static_cast<double>(options.*each.member), each.range);
    else if constexpr (std::is_same_v<Value, PerAxis> || std::is_same_v<Value, std::vector<int>> ||
                       std::is_same_v<Value, std::vector<double>> || std::is_same_v<Value, std::string>)
      check_value(each.key, options.*each.member, each.range);
  });
}

}  // namespace nixie
