// Lists what differs between two configurations: their texts, laid flat by path and compared.
#include "nixie/configs/parse/differences.h"

#include <fmt/format.h>

#include <map>

namespace nixie {
namespace {

using Values = std::map<std::string, std::string>;

void lay_flat(const Tree& tree, const std::string& path, Values& values) {
  const std::string start = path.empty() ? "" : path + ".";
  if (tree.is_map() && !tree.entries.empty()) {
    for (const Tree::Entry& entry : tree.entries) lay_flat(entry.value, start + entry.key, values);
  } else if (tree.is_list() && !tree.items.empty()) {
    for (std::size_t i = 0; i < tree.items.size(); ++i) lay_flat(tree.items[i], start + std::to_string(i), values);
  } else {
    values[path] = tree.is_scalar() ? tree.text : tree.is_list() ? "[]" : "{}";
  }
}

std::string value_at(const Values& values, const std::string& path) {
  const auto found = values.find(path);
  return found == values.end() ? "nothing" : found->second;
}

/// Whether there are elements of a list or map at this path.
bool has_elements(const Values& values, const std::string& path) {
  const auto first = values.lower_bound(path + ".");
  return first != values.end() && first->first.starts_with(path + ".");
}

}  // namespace

std::vector<std::string> config_differences(const Tree& before, const Tree& after) {
  Values old_values, new_values;
  lay_flat(before, "", old_values);
  lay_flat(after, "", new_values);
  Values paths = old_values;
  paths.insert(new_values.begin(), new_values.end());
  std::vector<std::string> changes;
  for (const auto& [path, value] : paths) {
    const std::string from = value_at(old_values, path), to = value_at(new_values, path);
    // The elements say what became of an empty list.
    if (has_elements(old_values, path) || has_elements(new_values, path)) continue;
    if (from != to) changes.push_back(fmt::format("{}: {} -> {}", path, from, to));
  }
  return changes;
}

std::vector<std::string> config_differences(const std::string& before, const std::string& after) {
  return config_differences(parse_yaml(before, "the saved configuration"), parse_yaml(after, "the configuration"));
}

}  // namespace nixie
