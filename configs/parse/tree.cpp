// A Tree of a YAML text, and the places in it.
#include <algorithm>

#include "nixie/configs/parse/yaml.h"
#include "nixie/core/base/one_line.h"

namespace nixie {

std::string to_string(const Place& place) {
  const std::string source = place.source ? one_line(*place.source) : std::string{};
  return place.line > 0 ? fmt::format("{}:{}:{}", source, place.line, place.column) : source;
}

const Tree* Tree::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

Tree* Tree::find(std::string_view key) { return const_cast<Tree*>(std::as_const(*this).find(key)); }

Tree make_tree(Place place, Tree::Kind kind) {
  Tree tree;
  tree.kind = kind;
  tree.place = std::move(place);
  return tree;
}

}  // namespace nixie
