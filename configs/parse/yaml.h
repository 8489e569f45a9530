// Strict YAML: parses a text to a Tree of maps, lists and scalars that remembers the place of each value.
//
// Stricter than YAML itself, so that no file is misread: one document whose root is a map, at
// most 1 MiB, 64 levels and 100,000 values (aliases counted at each use), no repeated keys, no tags,
// no cycles, no text without quotes over several lines. Scalars stay text here; configs/parse/reader.h gives them
// types. Root keys that begin with a dot only hold anchors and are dropped.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nixie/core/base/error.h"
#include "nixie/core/files/folder.h"

namespace nixie {

/// The place of a value: a line and column (from 1, in characters of UTF-8 text) of a file, or a command-line flag
/// (line 0).
struct Place {
  std::shared_ptr<const std::string> source;
  int line = 0, column = 0;
};

/// `alexnet.yaml:37:9`, or the flag.
std::string to_string(const Place& place);

/// One value of a YAML document.
struct Tree {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  struct Entry;

  Kind kind = Kind::null;
  bool quoted = false;  ///< the scalar was in quotes (or a block scalar), so it is a string
  Place place{};
  std::string text{};          ///< of a scalar
  std::vector<Tree> items{};   ///< of a list
  std::vector<Entry> entries;  ///< of a map, in the file's order

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_list() const { return kind == Kind::list; }
  bool is_map() const { return kind == Kind::map; }

  /// The value of a key, or nullptr if there is none.
  const Tree* find(std::string_view key) const;
  Tree* find(std::string_view key);
};

struct Tree::Entry {
  std::string key;
  Place place;
  Tree value;
};

/// The fields of a map.
using Fields = std::vector<Tree::Entry>;

/// An empty value of that kind; and values.
Tree make_tree(Place place, Tree::Kind kind = Tree::Kind::null);
Tree scalar_tree(const Place& place, const std::string& text);
/// Nine digits, which tell every float: 1 - 0.9 is 0.1.
Tree scalar_tree(const Place& place, double number);
Tree list_tree(const Place& place, std::vector<Tree> items);
Tree map_tree(const Place& place, Fields fields);

/// How repeated keys of a map are handled. neon's files repeat keys at the root to name anchors.
enum class RepeatedKeys : std::uint8_t { refused, last_at_root };

/// Parses one document. `file` names it in messages. Throws a usage Error `file:line:column: ...` for the first fault.
Tree parse_yaml(std::string_view text, const std::string& file, RepeatedKeys repeated = RepeatedKeys::refused);

/// Reads and parses a file.
Tree load_yaml(const FilePlace& file, RepeatedKeys repeated = RepeatedKeys::refused);

/// Applies `--set key.path=value`: the value is YAML, missing keys are created, a number indexes a list.
/// `choices` are the paths of maps that hold one name (`model`, `optimizer`): setting another name replaces it, so
/// `--set data.mnist.path=x` turns `data: {glyphs: {}}` into `data: {mnist: {path: x}}`. Errors name the flag.
void override_yaml(Tree& tree, const std::string& assignment, const std::vector<std::string>& choices = {});

/// The tree as YAML text that parses back to the same values.
std::string print_yaml(const Tree& tree);
/// The same in a line: `{linear: {out: 10}}`.
std::string print_flow(const Tree& tree);

}  // namespace nixie
