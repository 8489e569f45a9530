// Reads option structs from YAML trees: what the keys mean is in each struct's fields() (core/base/fields.h), the top
// level's in config.h. Collects every problem of a file before it throws.
//
// One rule everywhere: a choice from a list of types is written `{name of the struct: {its fields}}`, or just the
// name for all defaults.
//   Problems problems;
//   TrainOptions options;
//   read(tree, options, problems);                                       // a fixed struct
//   read_choice<AllOptimizers>(*tree.find("optimizer"), problems, [&](auto chosen) { optimizer = chosen; });
//   problems.raise();                                                    // throws once, a line per problem
//
// To make another type readable, declare beside it, in namespace nixie,
//   void read_value(const Tree& tree, MyType& value, Problems& problems);
// which sets `value` or adds a problem. It is found by argument-dependent lookup, also inside std::vector,
// std::optional and option structs, and preferred to the templates below. Any type with a static `name` and a
// read_value may be in a list for read_choice. Open a `Scope` (core/base/error.h) around the value of a key, so that
// messages name its path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "nixie/configs/parse/suggestion.h"
#include "nixie/configs/parse/yaml.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/base/path.h"

namespace nixie {

/// The problems of one configuration, each `file:line:column: what, expected what`.
class Problems {
 public:
  /// Adds a line made of the parts, each printed as fmt prints it.
  template <class... Parts>
  void add(const Place& place, const Parts&... parts) {
    lines_.push_back({place, one_line(line_of(parts...))});
  }
  /// Adds `PATH is VALUE, expected WHAT`; the path is that of the open Scopes. `would_do_unquoted`: but for the quotes
  /// the value is what is expected.
  void add_unexpected(const Tree& tree, const std::string& expected, bool would_do_unquoted = false);

  bool empty() const { return lines_.empty(); }
  std::size_t size() const { return lines_.size(); }
  /// The lines in file order.
  std::string text() const;
  /// Throws a usage Error with all lines, if there are any.
  void raise() const;

 private:
  struct Line {
    Place place;
    std::string text;
  };
  std::vector<Line> lines_;
};

/// Adds `unknown WHAT "word" in PATH, expected one of ...`, with a suggestion: a near word or, where the word is a key
/// of some of the known ones (`owners`), the path with one of them in it.
void add_unknown(const Place& place, const char* what, const std::string& word, const std::vector<std::string>& known,
                 Problems& problems, const std::vector<std::string>& owners = {});
/// Adds a problem unless the range holds the number read from `tree`.
void check_number(const Tree& tree, double value, const Range& range, Problems& problems);

// ---- Scalars: numbers are decimal and finite, a bool is true or false, quotes make a string

void read_value(const Tree& tree, bool& value, Problems& problems);
void read_value(const Tree& tree, int& value, Problems& problems);
void read_value(const Tree& tree, std::int64_t& value, Problems& problems);
void read_value(const Tree& tree, std::uint64_t& value, Problems& problems);
void read_value(const Tree& tree, float& value, Problems& problems);
void read_value(const Tree& tree, double& value, Problems& problems);
/// Any scalar, as written.
void read_value(const Tree& tree, std::string& value, Problems& problems);
/// An absolute path: a relative one is relative to its file (a flag's to the working directory),
/// and a leading ~ is the home folder.
void read_value(const Tree& tree, Path& value, Problems& problems);
/// `path` as read from `place`.
Path resolved_path(const std::filesystem::path& path, const Place& place);
/// An integer or a list of them.
void read_value(const Tree& tree, PerAxis& value, Problems& problems);

// ---- Templates over the above

template <class T>
void read_value(const Tree& tree, std::vector<T>& values, Problems& problems);
/// Absent stays absent; null is absent.
template <class T>
void read_value(const Tree& tree, std::optional<T>& value, Problems& problems);
/// A map of some of the struct's fields; null is all defaults.
template <Options T>
void read_value(const Tree& tree, T& options, Problems& problems);

/// Reads the fields in the tree, checks their ranges, and reports unknown keys.
template <Options T>
void read(const Tree& tree, T& options, Problems& problems);

/// The name and the fields of a choice.
struct Choice {
  std::string name;
  Place place;  ///< of the name
  Tree fields;
};
/// Splits `name` or `{name: {fields}}`; adds a problem and returns nothing for any other form, which tells what was
/// meant by a name that is not `known`.
std::optional<Choice> split_choice(const Tree& tree, Problems& problems, const std::vector<std::string>& known = {});

/// Reads one of the types of a list `Types<...>` and calls `function(value)` with it. Returns false, without a call,
/// if the name is unknown (the problem lists the known ones) or a field has a problem.
template <class List, class Function>
bool read_choice(const Tree& tree, Problems& problems, Function&& function);

// ---- Implementation

template <class T>
void read_value(const Tree& tree, std::vector<T>& values, Problems& problems) {
  if (!tree.is_list())
    return problems.add_unexpected(tree, tree.is_scalar() ? "a list, such as [" + tree.text + "]" : "a list");
  std::vector<T> read;
  for (std::size_t i = 0; i < tree.items.size(); ++i) {
    Scope scope(std::to_string(i));
    T value{};
    read_value(tree.items[i], value, problems);
    read.push_back(std::move(value));
  }
  values = std::move(read);
}

template <class T>
void read_value(const Tree& tree, std::optional<T>& value, Problems& problems) {
  if (tree.is_null()) {
    value.reset();
  } else {
    T read = value.value_or(T{});
    read_value(tree, read, problems);
    value = std::move(read);
  }
}

template <Options T>
void read_value(const Tree& tree, T& options, Problems& problems) {
  read(tree, options, problems);
}

// Checks numbers, also in lists and optionals, and skips other types.
template <class T>
void check_range(const Tree&, const T&, const Range&, Problems&) {}
template <class T>
requires std::is_arithmetic_v<T>
void check_range(const Tree& tree, const T& value, const Range& range, Problems& problems) {
  check_number(tree, static_cast<double>(value), range, problems);
}
template <class T>
void check_range(const Tree& tree, const std::vector<T>& values, const Range& range, Problems& problems) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Scope scope(tree.is_list() ? std::to_string(i) : std::string{});
    check_range(tree.is_list() ? tree.items[i] : tree, values[i], range, problems);
  }
}
/// Adds a problem unless the word, the value of `tree`, is one of the range's.
void check_range(const Tree& tree, const std::string& word, const Range& range, Problems& problems);
inline void check_range(const Tree& tree, const PerAxis& value, const Range& range, Problems& problems) {
  check_range(tree, value.values, range, problems);
}
template <class T>
void check_range(const Tree& tree, const std::optional<T>& value, const Range& range, Problems& problems) {
  if (value) check_range(tree, *value, range, problems);
}
// Instantiated once for every type of field, not for every field.
template <class T>
void read_field(const Tree::Entry& entry, T& value, const Range& range, Problems& problems) {
  Scope scope(entry.key);
  const std::size_t before = problems.size();
  read_value(entry.value, value, problems);
  if (problems.size() == before) check_range(entry.value, value, range, problems);
}
template <Options T>
void read(const Tree& tree, T& options, Problems& problems) {
  if (tree.is_null()) return;
  if (!tree.is_map()) return problems.add_unexpected(tree, "a map of fields");
  for (const Tree::Entry& entry : tree.entries) {
    bool is_known = false;
    std::vector<const char*> known;
    for_each_field<T>([&](const auto& field) {
      known.push_back(field.key);
      if (entry.key != field.key) return;
      is_known = true;
      read_field(entry, options.*field.member, field.range, problems);
    });
    if (is_known) continue;
    std::vector<std::string> owners;
    if constexpr (requires { T::places_of(entry.key); }) owners = T::places_of(entry.key);
    add_unknown(entry.place, "key", entry.key, {known.begin(), known.end()}, problems, owners);
  }
}

template <class List, class Function>
bool read_choice(const Tree& tree, Problems& problems, Function&& function) {
  std::vector<std::string> known;
  List::for_each([&]<class T>() { known.emplace_back(T::name); });
  const std::optional<Choice> choice = split_choice(tree, problems, known);
  if (!choice) return false;
  bool is_known = false, is_read = false;
  std::vector<const char*> owners;
  List::for_each([&]<class T>() {
    if constexpr (Options<T>)
      for_each_field<T>([&](const auto& field) {
        if (choice->name == field.key) owners.push_back(T::name);
      });
    if (choice->name != T::name) return;
    is_known = true;
    Scope scope(choice->name);
    const std::size_t before = problems.size();
    T value{};
    read_value(choice->fields, value, problems);
    if (problems.size() > before) return;
    is_read = true;
    function(std::move(value));
  });
  if (!is_known) add_unknown(choice->place, "name", choice->name, known, problems, {owners.begin(), owners.end()});
  return is_read;
}

}  // namespace nixie
