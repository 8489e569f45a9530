// Marks the values that are asked for, and then looks for those that were not.
#include "nixie/configs/parse/neon/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "nixie/configs/parse/reader.h"
#include "nixie/configs/parse/words/tables.h"

namespace nixie {
namespace {

using PlaceInFile = std::pair<int, int>;

PlaceInFile place_in_file(const Tree& tree) { return {tree.place.line, tree.place.column}; }

template <class T>
T read_as(const Tree& value, const std::string& key, const Range& range = {}) {
  const Scope scope(key);
  Problems problems;
  T number{};
  read_value(value, number, problems);
  if (problems.empty()) check_range(value, number, range, problems);
  problems.raise();
  return number;
}

/// Whether an alias repeats the tree or a part of it.
bool holds_place(const Tree& tree, const std::set<PlaceInFile>& places) {
  return places.contains(place_in_file(tree)) ||
         std::any_of(tree.items.begin(), tree.items.end(),
                     [&](const Tree& item) { return holds_place(item, places); }) ||
         std::any_of(tree.entries.begin(), tree.entries.end(),
                     [&](const Tree::Entry& entry) { return holds_place(entry.value, places); });
}

}  // namespace

void refuse(const Tree& at, const std::string& what) { fail(Fault::usage, to_string(at.place), ": ", one_line(what)); }

double number_of(const Tree& value, const std::string& key, const Range& range) {
  return read_as<double>(value, key, range);
}
int integer_of(const Tree& value, const std::string& key, const Range& range) {
  return read_as<int>(value, key, range);
}

const Tree* NeonSource::take(const Tree& object, const std::string& key) {
  const Tree* found = object.find(key);
  if (found) taken_.insert(found);
  if (found && found->is_list())
    for (const Tree& item : found->items) taken_.insert(&item);
  return found;
}

const Tree* NeonSource::find(const Tree& object, const std::string& key) {
  const Tree* config = take(object, "config");
  if (config && !config->is_map() && !config->is_null()) refuse(*config, "config is no map of fields");
  const Tree* found = take(object, key);
  if (!found && config) found = take(*config, key);
  for (const Tree* map : {&object, config ? config : &object})
    if (std::vector<std::string>& keys = asked_[map]; std::find(keys.begin(), keys.end(), key) == keys.end())
      keys.push_back(key);
  return found && !found->is_null() ? found : nullptr;
}

const Tree& NeonSource::need(const Tree& object, const std::string& key) {
  if (const Tree* found = find(object, key)) return *found;
  for (const Tree* map : {&object, object.find("config")})
    for (std::size_t i = 0; map && i < map->entries.size(); ++i)
      if (const Tree::Entry& entry = map->entries[i]; entry.key != key && !did_you_mean(entry.key, {key}).empty())
        fail(Fault::usage, to_string(entry.place), ": unknown key ", field_text(entry.key),
             did_you_mean(entry.key, {key}));
  refuse(object, fmt::format("{} is missing, which neon requires", key));
}

std::string NeonSource::type_of(const Tree& object) {
  if (!object.is_scalar() && !object.is_map()) refuse(object, "expected a type, or a map with one");
  const Tree* type = object.is_scalar() ? &object : take(object, "type");
  if (!type) refuse(object, "has no type, which every layer, transform and optimizer of neon has");
  if (!type->is_scalar()) refuse(*type, "the type is no word");
  return type->text.substr(type->text.rfind('.') + 1);
}

std::string NeonSource::word(const Tree& object, const std::string& key, const std::string& otherwise) {
  const Tree* found = find(object, key);
  return found ? read_as<std::string>(*found, key) : otherwise;
}

bool NeonSource::flag(const Tree& object, const std::string& key, bool otherwise) {
  const Tree* found = find(object, key);
  if (!found) return otherwise;
  for (const auto& [words, value] : {std::pair("true True TRUE yes Yes YES on On ON", true),
                                     std::pair("false False FALSE no No NO off Off OFF", false)})
    if (!found->quoted && fmt::format(" {} ", words).find(" " + found->text + " ") != std::string::npos) return value;
  refuse(*found, fmt::format("{} is \"{}\", expected true or false", key, found->text));
}

double NeonSource::number(const Tree& object, const std::string& key, double otherwise, const Range& range) {
  const Tree* found = find(object, key);
  return found ? number_of(*found, key, range) : otherwise;
}

int NeonSource::integer(const Tree& object, const std::string& key, int otherwise) {
  const Tree* found = find(object, key);
  return found ? integer_of(*found, key) : otherwise;
}

Tree NeonSource::number_tree(const Tree& object, const std::string& key, double otherwise) {
  const double value = number(object, key, otherwise);
  const Tree* found = find(object, key);
  return found ? *found : scalar_tree(object.place, value);
}

Tree NeonSource::rest_tree(const Tree& object, const std::string& key, double otherwise) {
  const double share = number(object, key, otherwise, {0, 1});
  const Tree* found = find(object, key);
  return scalar_tree(found ? found->place : object.place, 1 - share);
}

/// By a rule such as `1-keep:0.5`.
Tree NeonSource::value_of(const Tree& object, std::string_view rule) {
  const auto takes = [&](std::string_view form) {
    const bool is_form = rule.starts_with(form);
    if (is_form) rule.remove_prefix(form.size());
    return is_form;
  };
  const bool is_rest = takes("1-"), is_root = takes("sqrt-"), is_flag = takes("?");
  const std::size_t colon = rule.find(':');
  const std::string key(rule.substr(0, colon));
  if (is_flag) return scalar_tree(object.place, flag(object, key) ? "true" : "false");
  if (colon == rule.npos) return need(object, key);
  const double otherwise = std::stod(std::string(rule.substr(colon + 1)));
  if (key.empty()) return scalar_tree(object.place, otherwise);
  if (is_rest) return rest_tree(object, key, otherwise);
  if (!is_root) return number_tree(object, key, otherwise);
  note("the eps of RMSProp and Adagrad is the root of neon's epsilon, which is added under the root");
  return scalar_tree(object.place, std::sqrt(number(object, key, otherwise, {0})));
}

ConvertedType NeonSource::converted(const std::string& what, const Tree& object) {
  const std::string type = type_of(object);
  const auto row = std::ranges::find(neon_types(), what + "." + type, &OtherWord::word);
  if (row == neon_types().end())
    refuse(object, fmt::format("{} {} has no counterpart that this converter knows", what, type));
  ConvertedType converted{row->known_word, {}};
  std::istringstream fields(row->text);
  for (std::string name, rule; std::getline(fields >> std::ws, name, '=') && fields >> rule;)
    converted.fields.push_back(field_of(name, value_of(object, rule)));
  return converted;
}

void NeonSource::skip(const Tree& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    take(object, key);
    if (const Tree* config = take(object, "config")) take(*config, key);
  }
}

void NeonSource::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

void NeonSource::check_taken() const {
  std::set<PlaceInFile> used, reported;
  for (const Tree* tree : taken_) used.insert(place_in_file(*tree));
  Problems problems;
  const auto look = [&](auto&& look, const Tree& tree, const std::string& name) -> void {
    for (const Tree& item : tree.items) look(look, item, name);
    const Tree* type = tree.find("type");
    const std::string of = type && type->is_scalar() ? type->text : name;
    for (const Tree::Entry& entry : tree.entries) {
      if (taken_.contains(&entry.value)) {
        look(look, entry.value, entry.key == "config" ? of : entry.key);
        continue;
      }
      const bool is_named = &tree == &root_ && (entry.value.find("type") || holds_place(entry.value, used));
      if (is_named || !reported.emplace(entry.place.line, entry.place.column).second) continue;
      const auto asked = asked_.find(&tree);
      const std::vector<std::string> known = asked == asked_.end() ? std::vector<std::string>{} : asked->second;
      problems.add(entry.place, "key ", field_text(entry.key), " of ", of,
                   " has no counterpart that this converter knows; expected ",
                   known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")), did_you_mean(entry.key, known));
    }
  };
  look(look, root_, "the file");
  problems.raise();
}

Tree choice_tree(const Place& place, const std::string& kind, Fields fields) {
  if (fields.empty()) return scalar_tree(place, kind);
  return map_tree(place, {{kind, place, map_tree(place, std::move(fields))}});
}
Tree::Entry field_of(const std::string& key, Tree value) {
  const Place place = value.place;
  return {key, place, std::move(value)};
}

}  // namespace nixie
