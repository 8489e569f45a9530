// Walks the net's own description, and builds each layer for the shape that reaches it.
#include "nixie/apps/trainer/profile/layer_table.h"

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
  read_value(scalar_tree({}, kind.key), plain, problems);
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
  Shape layers(const Tree& list, const std::string& path, const Shape& in) {
    Problems problems;
    Sequential read;
    read_value(list, read, problems);
    problems.raise();
    const std::vector<std::vector<int>> inputs = layer_inputs(read.layers);
    std::vector<Shape> outs;
    for (std::size_t i = 0; i < read.layers.size(); ++i) {
      std::vector<Shape> reads;
      for (const int from : inputs[i]) reads.push_back(from < 0 ? in : outs[static_cast<std::size_t>(from)]);
      const std::string name = path_of(path, read.layers[i], i);
      if (read.layers[i].layer.shared().empty())
        outs.push_back(layer(list.items[i], read.layers[i].layer, name, reads));
      else
        outs.push_back(shared(read.layers[i].layer, read.layers[shared_layer(read.layers, i)].layer, name, reads[0]));
    }
    return outs.empty() ? in : outs.back();
  }
  std::vector<PlacedLayer> placed() && { return std::move(placed_); }

 private:
  static std::string path_of(const std::string& path, const NamedLayer& layer, std::size_t index) {
    const std::string own = name_in_list(layer, index);
    return path.empty() || own.empty() ? path + own : path + "." + own;
  }

  Shape layer(const Tree& tree, const AnyLayer& any, const std::string& name, const std::vector<Shape>& reads) {
    const Tree::Entry& kind = kind_of(tree);
    if (kind.key == Sequential::name) return layers(kind.value, name, reads[0]);
    if (reads.size() > 1) return joined(any, name, reads);
    Parameters parameters;
    const Tensor result = result_of(any, name, reads[0], parameters);
    const Tree* branches = kind.value.find("branches");
    const bool joins = branches && !branches->items.empty();
    if (joins) layers_side_by_side(*branches, name, reads[0]);
    return place({.name = name,
                  .layer = any,
                  .in = reads[0],
                  .out = result.shape(),
                  .parameters = joins ? 0 : parameters.count(),
                  .flop = joins ? 0 : work_of(Graph{.outputs = {result}}).flop,
                  .options = joins ? "of the above" : options_text(tree),
                  .joins = joins});
  }

  Shape joined(const AnyLayer& any, const std::string& name, const std::vector<Shape>& reads) {
    const Scope scope(name, any.kind());
    std::vector<Tensor> parts;
    for (const Shape& shape : reads) parts.push_back(placeholder(shape));
    return place({.name = name,
                  .layer = any,
                  .in = reads[0],
                  .out = any.join()(parts).shape(),
                  .options = fmt::format("of {} inputs", reads.size()),
                  .joins = true});
  }

  /// Another application of a layer, whose parameters count once.
  Shape shared(const AnyLayer& of, const AnyLayer& original, const std::string& name, const Shape& in) {
    Parameters parameters;
    const Tensor result = result_of(original, name, in, parameters);
    return place({.name = name,
                  .layer = original,
                  .in = in,
                  .out = result.shape(),
                  .flop = work_of(Graph{.outputs = {result}}).flop,
                  .options = "parameters of " + of.shared()});
  }

  Shape place(PlacedLayer layer) { return placed_.emplace_back(std::move(layer)).out; }

  static Tensor result_of(const AnyLayer& layer, const std::string& name, const Shape& in, Parameters& parameters) {
    const Scope scope(name, layer.kind());
    const Forward forward = layer.build(in, parameters);
    Trace trace;  // what the layer sets is dropped
    Pass pass{.training = false};
    return forward(placeholder(in), pass);
  }

  void layers_side_by_side(const Tree& list, const std::string& path, const Shape& in) {
    Problems problems;
    std::vector<NamedLayer> branches;
    read_value(list, branches, problems);
    problems.raise();
    for (std::size_t i = 0; i < branches.size(); ++i)
      layer(list.items[i], branches[i].layer, path_of(path, branches[i], i), {in});
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
