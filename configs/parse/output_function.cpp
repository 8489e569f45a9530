// Follows the list to its last layer that changes numbers.
#include "nixie/configs/parse/output_function.h"

#include "nixie/layers/registry.h"

namespace nixie {
namespace {

bool is_one_of(const std::string& kind, std::initializer_list<const char*> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// The kind of a layer, `relu` or `{relu: {...}, name: x}`, and its fields, if there are any.
std::pair<std::string, const Tree*> kind_of(const Tree& layer) {
  if (layer.is_scalar()) return {layer.text, nullptr};
  for (const Tree::Entry& entry : layer.entries)
    if (!is_one_of(entry.key, {"name", "input"})) return {entry.key, &entry.value};
  return {};
}

}  // namespace

void check_output_function(const Tree& model, const std::string& loss, const std::string& function,
                           Problems& problems) {
  if (function.empty()) return;
  for (std::size_t i = model.items.size(); i-- > 0;) {
    const auto [kind, fields] = kind_of(model.items[i]);
    if (kind == Sequential::name && fields) return check_output_function(*fields, loss, function, problems);
    if (is_one_of(kind, {Softmax::name, Sigmoid::name}))
      return problems.add(model.items[i].place, "the last layer is ", kind, ", but the loss ", loss,
                          " takes logits and applies ", function, " itself; remove the layer");
    if (!is_one_of(kind, {Identity::name, Flatten::name, ReshapeTo::name})) return;
  }
}

}  // namespace nixie
