// Walks the net's own description, and builds each layer for the shape that reaches it.
#include "nixie/apps/trainer/report/layer_table.h"

#include "nixie/apps/trainer/profile/work_of.h"
#include "nixie/configs/parse/values.h"

namespace nixie {
namespace {

/// The layer's kind and fields; the description of a layer may hold its name beside them.
const Tree::Entry& kind_of(const Tree& layer) { return layer.entries.front(); }

std::string flow_text(const Tree& tree) {
  std::string text;
  for (const Tree& item : tree.items) text += (text.empty() ? "" : ", ") + flow_text(item);
  for (const Tree::Entry& entry : tree.entries)
    text += (text.empty() ? "" : ", ") + entry.key + " " + flow_text(entry.value);
  return tree.is_list() && tree.items.size() != 1 ? "[" + text + "]" : text + tree.text;
}

/// The fields that differ from the layer's defaults.
std::string options_text(const Tree& layer) {
  const Tree::Entry& kind = kind_of(layer);
  Problems problems;
  NamedLayer plain;
  Tree name = make_tree({}, Tree::Kind::scalar);
  name.text = kind.key;
  read_value(name, plain, problems);
  const Tree defaults = parse_yaml(plain.layer.text(), kind.key);
  std::string text;
  for (const Tree::Entry& entry : kind.value.entries) {
    const Tree* usual = kind_of(defaults).value.find(entry.key);
    if (usual && flow_text(*usual) == flow_text(entry.value)) continue;
    text += (text.empty() ? "" : ", ") + entry.key + " " + flow_text(entry.value);
  }
  return text;
}

std::string sample_text(const Shape& shape) {
  return to_string(Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end())));
}

std::string megas(double flop) { return fmt::format("{:.3f}", flop / 1e6); }

class Walk {
 public:
  Shape layers(const Tree& list, const std::string& path, Shape shape) {
    for (std::size_t i = 0; i < list.items.size(); ++i) shape = layer(list.items[i], i, path, shape);
    return shape;
  }
  std::vector<PlacedLayer> placed() && { return std::move(placed_); }

 private:
  Shape layer(const Tree& tree, std::size_t index, const std::string& path, const Shape& in) {
    const Tree* given = tree.find("name");
    const std::string own = given ? given->text : std::to_string(index);
    const std::string name = path.empty() || own.empty() ? path + own : path + "." + own;
    const Tree::Entry& kind = kind_of(tree);
    if (kind.key == Sequential::name) return layers(kind.value, name, in);
    Problems problems;
    NamedLayer named;
    read_value(tree, named, problems);
    problems.raise();
    Parameters parameters;
    Scope scope(name, kind.key);
    const Forward forward = named.layer.build(in, parameters);
    Trace trace;  // what the layer sets is dropped
    Pass pass{.training = false};
    const Tensor result = forward(placeholder(in), pass);
    const Shape out = result.shape();
    const Tree* branches = kind.value.find("branches");
    if (branches) layers_side_by_side(*branches, name, in);
    placed_.push_back({.name = name,
                       .layer = named.layer,
                       .in = in,
                       .out = out,
                       .parameters = branches ? 0 : parameters.count(),
                       .flop = branches ? 0 : work_of(Graph{.outputs = {result}}).flop,
                       .options = branches ? "of the above" : options_text(tree),
                       .joins = branches != nullptr});
    return out;
  }
  void layers_side_by_side(const Tree& list, const std::string& path, const Shape& in) {
    for (std::size_t i = 0; i < list.items.size(); ++i) layer(list.items[i], i, path, in);
  }

  std::vector<PlacedLayer> placed_;
};

}  // namespace

std::vector<PlacedLayer> placed_layers(const AnyModel& model, const Shape& input) {
  const Tree tree = parse_yaml("model: " + model.layers().text(), "model");
  Walk walk;
  walk.layers(*tree.find("model"), "", input);
  return std::move(walk).placed();
}

std::vector<LayerRow> layer_rows(const AnyModel& model, const Shape& input) {
  std::vector<LayerRow> rows;
  for (const PlacedLayer& placed : placed_layers(model, input))
    rows.push_back({placed.name, placed.layer.kind(), sample_text(placed.out),
                    placed.parameters > 0 ? std::to_string(placed.parameters) : "",
                    placed.flop > 0 ? megas(placed.flop / static_cast<double>(placed.in[0])) : "",
                    fmt::format("{:.1f}", 4.0 * static_cast<double>(placed.out.size() / placed.out[0]) / 1024),
                    placed.options});
  return rows;
}

std::string layer_table(const AnyModel& model, const Shape& input) {
  constexpr const char* kLine = "{:28} {:17} {:18} {:>12} {:>10} {:>10}  {}\n";
  std::string text = fmt::format(kLine, "layer", "kind", "output", "parameters", "MFLOP", "KiB", "options");
  for (const LayerRow& row : layer_rows(model, input))
    text += fmt::format(kLine, row.name, row.kind, row.shape, row.parameters, row.mflop, row.kib, row.options);
  double flop = 0;
  for (const PlacedLayer& placed : placed_layers(model, input)) flop += placed.flop;
  return text + fmt::format("forward pass of a sample: {} MFLOP (two for a multiplication and its addition)\n",
                            megas(flop / static_cast<double>(input[0])));
}

}  // namespace nixie
