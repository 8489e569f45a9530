// A file of neon whose reader remembers what it asked for, so that no key is dropped without a word; and the trees of
// nixie's configuration, whose places are those of neon's file.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nixie/configs/parse/yaml.h"
#include "nixie/core/base/fields.h"

namespace nixie {

/// Throws a usage Error `file:line:column: what`.
[[noreturn]] void refuse(const Tree& at, const std::string& what);

/// A struct of nixie, written `{kind: {fields}}`.
struct ConvertedType {
  std::string kind;
  Fields fields;
};

/// Fields of neon's objects are beside `type`, as the later versions write them, or under `config`; null is the
/// default. Errors are usage Errors with the place.
class NeonSource {
 public:
  /// The root outlives this and is not changed.
  explicit NeonSource(const Tree& root) : root_(root) {}

  const Tree& root() const { return root_; }
  /// The value of a field; nullptr where it is missing or null.
  const Tree* find(const Tree& object, const std::string& key);
  /// The same, of one that neon requires.
  const Tree& need(const Tree& object, const std::string& key);
  /// `type: neon.layers.layer.Linear` or the word alone, without the module: `Linear`.
  std::string type_of(const Tree& object);
  std::string word(const Tree& object, const std::string& key, const std::string& otherwise = {});
  /// true, True, yes, On: a boolean as YAML 1.1 has it, which neon's reader is of.
  bool flag(const Tree& object, const std::string& key, bool otherwise = false);
  double number(const Tree& object, const std::string& key, double otherwise, const Range& range = {});
  int integer(const Tree& object, const std::string& key, int otherwise);
  /// A number as it is written, for a field of nixie's.
  Tree number_tree(const Tree& object, const std::string& key, double otherwise);
  /// 1 minus a share, for a field of nixie's that counts the rest.
  Tree rest_tree(const Tree& object, const std::string& key, double otherwise);
  /// The counterpart of an object, which is a `what`, by the table words/neon_types.tsv; refuses one that is not in it.
  ConvertedType converted(const std::string& what, const Tree& object);
  /// Takes fields that make no difference here.
  void skip(const Tree& object, std::initializer_list<const char*> keys);

  /// Tells the user something about what was converted, once.
  void note(const std::string& text);
  const std::vector<std::string>& notes() const { return notes_; }

  /// Throws a line for each key that nothing asked for. Other keys at the root are allowed where they hold an object
  /// (neon's files name anchors so) or something that an alias repeats.
  void check_taken() const;

 private:
  const Tree* take(const Tree& object, const std::string& key);
  Tree value_of(const Tree& object, std::string_view rule);

  const Tree& root_;
  std::vector<std::string> notes_;
  std::set<const Tree*> taken_;                            // values
  std::map<const Tree*, std::vector<std::string>> asked_;  // keys, by their maps
};

/// The number that a scalar or each item of a list holds; `key` names it in errors.
double number_of(const Tree& value, const std::string& key, const Range& range = {});
int integer_of(const Tree& value, const std::string& key, const Range& range = {});

/// `{kind: {fields}}`, or `kind` where there are none.
Tree choice_tree(const Place& place, const std::string& kind, Fields fields = {});
/// A field whose value has the place.
Tree::Entry field_of(const std::string& key, Tree value);

}  // namespace nixie
