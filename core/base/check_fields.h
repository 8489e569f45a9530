// check_fields: holds an options struct that C++ code filled in against the ranges of its field list.
#pragma once

#include <cmath>

#include "nixie/core/base/fields.h"

namespace nixie {

/// Whether the range holds the value, ends included.
inline bool holds(const Range& range, double value) { return value >= range.low && value <= range.high; }

/// `a number from LOW up`, `a number from LOW to HIGH`
inline std::string text_of(const Range& range) {
  return std::isinf(range.high)  ? fmt::format("a number from {} up", range.low)
         : std::isinf(range.low) ? fmt::format("a number up to {}", range.high)
                                 : fmt::format("a number from {} to {}", range.low, range.high);
}

/// Throws `KEY is VALUE, expected a number from LOW up` unless the range holds the value.
inline void check_in_range(const char* key, double value, const Range& range) {
  if (!holds(range, value)) fail(Fault::usage, key, " is ", value, ", expected ", text_of(range));
}

/// Throws a usage Error for the first number of the struct, or of a list in it, that is out of its field's range.
template <Options T>
void check_fields(const T& options) {
  for_each_field<T>([&](const auto& each) {
    const auto& value = options.*each.member;
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, bool>) {
      return;
    } else if constexpr (std::is_arithmetic_v<Value>) {
      check_in_range(each.key, static_cast<double>(value), each.range);
    } else if constexpr (std::is_same_v<Value, PerAxis>) {
      for (int number : value.values) check_in_range(each.key, number, each.range);
    } else if constexpr (std::is_same_v<Value, std::vector<int>> || std::is_same_v<Value, std::vector<double>>) {
      for (auto number : value) check_in_range(each.key, static_cast<double>(number), each.range);
    }
  });
}

}  // namespace nixie
