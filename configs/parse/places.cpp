// Every value's place by its path, and every layer's by the name that errors give it.
#include "nixie/configs/parse/places.h"

#include "nixie/layers/pool.h"

namespace nixie {
namespace {

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

void add_keys(const Tree& tree, const std::string& path, std::map<std::string, Place>& places) {
  places.emplace(path, tree.place);
  for (const Tree::Entry& entry : tree.entries) add_keys(entry.value, joined(path, entry.key), places);
  for (std::size_t i = 0; i < tree.items.size(); ++i) add_keys(tree.items[i], joined(path, std::to_string(i)), places);
}

/// Layers are named as containers name them: by `name`, or else by number.
void add_layers(const Tree& layers, const std::string& path, std::map<std::string, Place>& places) {
  for (std::size_t i = 0; i < layers.items.size(); ++i) {
    const Tree& layer = layers.items[i];
    const Tree* name = layer.find("name");
    const std::string inner = joined(path, name ? name->text : std::to_string(i));
    places.emplace(inner, layer.place);
    for (const Tree::Entry& kind : layer.entries) {
      if (kind.key == "input") continue;  // names
      if (kind.value.is_list()) add_layers(kind.value, inner, places);
      for (const Tree::Entry& field : kind.value.entries)
        if (field.value.is_list()) add_layers(field.value, inner, places);
    }
  }
}

/// The path of the last layer, inner ones included, with an `out` that is a number of channels; "" where none has one.
std::string last_with_out(const Tree& tree, const std::string& path) {
  for (std::size_t i = tree.items.size(); i-- > 0;)
    if (std::string found = last_with_out(tree.items[i], joined(path, std::to_string(i))); !found.empty()) return found;
  for (auto entry = tree.entries.rbegin(); entry != tree.entries.rend(); ++entry) {
    if (entry->key != AdaptiveAvgPool2d::name && entry->value.find("out")) return path;
    if (std::string found = last_with_out(entry->value, joined(path, entry->key)); !found.empty()) return found;
  }
  return "";
}

/// The place of the longest part of a path that has one; none for a path that begins with nothing known.
const Place* nearest(const std::map<std::string, Place>& places, std::string path) {
  for (;;) {
    if (path.empty()) return nullptr;
    if (const auto found = places.find(path); found != places.end()) return &found->second;
    path.resize(path.find_last_of('.') == std::string::npos ? 0 : path.find_last_of('.'));
  }
}

}  // namespace

Places::Places(const Tree& tree) {
  add_keys(tree, "", keys_);
  if (const Tree* model = tree.find("model")) {
    add_layers(*model, "", layers_);
    if (const std::string last = last_with_out(*model, "model"); model->is_list() && !last.empty()) outputs_ = last;
  }
}

Place Places::of(const std::string& message, const std::string& key) const {
  const std::string path = message.substr(0, message.find_first_of(" :"));
  const Place* found = key == "model" ? nearest(layers_, path) : nullptr;
  if (!found) found = nearest(keys_, path);
  if (!found) found = nearest(keys_, key);
  if (!found && !keys_.empty()) found = &keys_.at("");
  return found ? *found : Place{};
}

}  // namespace nixie
