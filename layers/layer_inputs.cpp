// Resolves the names by which the layers of a list read each other.
#include <algorithm>

#include "nixie/layers/sequential.h"

namespace nixie {
namespace {

constexpr const char* kListInput = "input";

std::vector<std::size_t> layers_named(const std::vector<NamedLayer>& layers, const std::string& name) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (name_in_list(layers[i], i) == name) found.push_back(i);
  return found;
}

std::string known_names(const std::vector<NamedLayer>& layers, std::size_t before) {
  std::string known = kListInput;
  for (std::size_t i = 0; i < before; ++i)
    if (layers[i].name && !layers[i].name->empty()) known += ", " + *layers[i].name;
  return known;
}

/// The one layer before `index` that has the name, or -1 for the list's input.
int layer_named(const std::vector<NamedLayer>& layers, std::size_t index, const std::string& name) {
  const std::vector<std::size_t> all = layers_named(layers, name);
  const auto earlier = std::count_if(all.begin(), all.end(), [index](std::size_t i) { return i < index; });
  check(earlier <= 1, "reads ", field_text(name), ", which is the name of ", earlier,
        " layers before it; give them names of their own");
  if (earlier == 1) return static_cast<int>(all[0]);
  if (name == kListInput) return -1;
  check(all.empty() || all[0] == index, "reads ", field_text(name),
        ", which comes after it in the list; move that layer in front of this one");
  check(all.empty(), "reads itself; name a layer before it");
  fail(Fault::usage, "reads ", field_text(name),
       ", expected the name of a layer before it in the list: ", known_names(layers, index));
}

}  // namespace

std::string name_in_list(const NamedLayer& layer, std::size_t index) {
  return layer.name.value_or(std::to_string(index));
}

std::vector<std::vector<int>> layer_inputs(const std::vector<NamedLayer>& layers) {
  std::vector<std::vector<int>> inputs;
  std::vector<bool> is_read(layers.size(), false);
  const auto read = [&](int from) {
    if (from >= 0) is_read[static_cast<std::size_t>(from)] = true;
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Scope scope(name_in_list(layers[i], i), layers[i].layer.kind());
    std::vector<int>& reads = inputs.emplace_back();
    if (layers[i].input.empty()) reads.push_back(static_cast<int>(i) - 1);
    for (const std::string& name : layers[i].input) reads.push_back(layer_named(layers, i, name));
    std::ranges::for_each(reads, read);
    if (!layers[i].layer.shared().empty()) read(layer_named(layers, i, layers[i].layer.shared()));
  }
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    const Scope scope(name_in_list(layers[i], i), layers[i].layer.kind());
    check(is_read[i] || layers[i].layer.adds_loss(),
          "no layer reads its result; name it as an input of another layer, or remove it");
  }
  return inputs;
}

std::size_t shared_layer(const std::vector<NamedLayer>& layers, std::size_t index) {
  const Scope scope(name_in_list(layers[index], index), layers[index].layer.kind());
  const int found = layer_named(layers, index, layers[index].layer.shared());
  check(found >= 0, "shares the list's input, expected the name of a layer: ", known_names(layers, index));
  const auto at = static_cast<std::size_t>(found);
  return layers[at].layer.shared().empty() ? at : shared_layer(layers, at);
}

}  // namespace nixie
