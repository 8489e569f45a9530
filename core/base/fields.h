// The field list of an options struct: one list gives YAML keys, printing and the reference manual.
//
// An options struct is an aggregate with defaults, a name and a list:
//   struct Dropout {
//     float rate = 0.5f;
//     static constexpr const char* name = "dropout";
//     static constexpr auto fields() { return field_list(field("rate", &Dropout::rate, "fraction of inputs set to
//     zero", {0, 1})); }
//   };
#pragma once

#include <concepts>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "nixie/core/base/error.h"

namespace nixie {

/// The numbers a field may hold, ends included; or the words.
struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  const char* words = "";  ///< of a text, separated by spaces: `zero reflect`; none: any text
};

/// The range of a text that is one of these words, separated by spaces.
constexpr Range one_of(const char* words) { return {.words = words}; }

/// One field: its key, its member, its meaning, and its allowed range (of a number, of each in a list, or of a text).
template <class Struct, class Value>
struct Field {
  const char* key;
  Value Struct::*member;
  const char* doc;
  Range range;
};

template <class Struct, class Value>
constexpr Field<Struct, Value> field(const char* key, Value Struct::*member, const char* doc, Range range = {}) {
  return {key, member, doc, range};
}

/// The fields of a struct, in order: calls what it is given with each of them. A std::tuple would do the same, but its
/// constructors take compilers long, in every file that names a layer.
template <class... Each>
constexpr auto field_list(Each... each) {
  return [=](auto&& function) { (function(each), ...); };
}

/// A struct with a name and a field list.
template <class T>
concept Options = requires {
  { T::name } -> std::convertible_to<std::string>;
  T::fields();
};

/// Calls `function(field)` for each field of an options struct.
template <Options T, class Function>
void for_each_field(Function&& function) {
  T::fields()(function);
}

/// A list of types, for the registries: `using AllLayers = Types<Linear, Conv2d, ...>;`
template <class... T>
struct Types {
  /// Calls `function.template operator()<T>()` for each type.
  template <class Function>
  static void for_each(Function&& function) {
    (function.template operator()<T>(), ...);
  }
};

/// One number for all spatial axes, or one for each: `.kernel = 3` or `.kernel = {3, 5}`. A convolution's `.pad` may be
/// PerAxis::same(): the padding that keeps the image's size.
struct PerAxis {
  std::vector<int> values;
  PerAxis(int value) : values{value} {}
  PerAxis(std::initializer_list<int> each) : values(each) {}
  explicit PerAxis(std::vector<int> each) : values(std::move(each)) {}

  static PerAxis same() { return PerAxis(std::vector<int>{}); }
  bool is_same() const { return values.empty(); }

  /// One value for each of `axes` axes; throws if the list has another length.
  std::vector<int> expand(int axes, const char* what) const;
  bool operator==(const PerAxis&) const = default;
};

/// The YAML text of a field's value. Other types add an overload beside their definition. For numbers: bool, int,
/// std::int64_t, std::uint64_t, float and double; not defined in this header, since every file that names a layer
/// would compile it.
template <class T>
requires std::is_arithmetic_v<T> std::string field_text(T value);
std::string field_text(const std::string& value);  ///< in double quotes, as YAML reads it back
std::string field_text(const PerAxis& value);

/// Appends `, ` unless the text is only its opening bracket; then the key with a colon, if any; then the value.
void append_entry(std::string& text, const char* key, const std::string& value);

template <class T>
std::string field_text(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) append_entry(text, nullptr, field_text(value));
  return text + "]";
}

/// `null` if it is absent.
template <class T>
std::string field_text(const std::optional<T>& value) {
  return value ? field_text(*value) : "null";
}

/// `{out: 64, kernel: 11}` with every field.
template <Options T>
std::string fields_text(const T& options) {
  std::string text = "{";
  for_each_field<T>([&](const auto& each) { append_entry(text, each.key, field_text(options.*each.member)); });
  return text + "}";
}

}  // namespace nixie
