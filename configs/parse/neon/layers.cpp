// The layers of neon/layers/layer.py with their defaults, and neon/initializers.
#include "nixie/configs/parse/neon/layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace nixie {
namespace {

/// A weight as neon's initialisers see it: [inputs, outputs] of a convolution; [outputs, inputs] of a linear layer,
/// whose inputs are not known here; [outputs, 1] of a bias.
struct WeightShape {
  double rows;
  std::optional<double> columns = {};
  bool is_convolution = false;
};

struct AxisKeys {
  const char *key, *height, *width, *depth;
  int neutral;  // the depth of a picture
};
constexpr AxisKeys kStrides{"strides", "str_h", "str_w", "str_d", 1}, kPadding{"padding", "pad_h", "pad_w", "pad_d", 0},
    kDilation{"dilation", "dil_h", "dil_w", "dil_d", 1}, kWindow{"fshape", "R", "S", "T", 1};

Tree size_tree(const Place& place, std::array<int, 2> sizes) {
  const auto number = [&](int size) { return scalar_tree(place, std::to_string(size)); };
  return sizes[0] == sizes[1] ? number(sizes[0]) : list_tree(place, {number(sizes[0]), number(sizes[1])});
}

class Converter {
 public:
  Converter(NeonSource& source, int channels) : source_(source), channels_(channels) {}

  void add(const Tree& layer) {
    const std::string type = source_.type_of(layer);
    const auto known = std::ranges::find(kLayers, type, &LayerRow::type);
    if (known == std::end(kLayers))
      refuse(layer, fmt::format("layer {} has no counterpart that this converter knows", type));
    source_.skip(layer, {"name", "parallelism", "bsum"});
    (this->*known->add)(layer);
  }
  std::vector<ConvertedLayer> take() { return std::move(layers_); }

 private:
  struct LayerRow {
    const char* type;
    void (Converter::*add)(const Tree&);
  };
  static const LayerRow kLayers[10];

  ConvertedLayer& append(const std::string& kind, const Tree& from, Fields fields = {}) {
    return layers_.emplace_back(ConvertedLayer{.kind = kind, .from = &from, .fields = std::move(fields)});
  }

  void add_linear(const Tree& layer) {
    add_flatten(layers_, layer);
    const std::string name = name_of(layer, "linear_name");
    const Tree& outputs = source_.need(layer, "nout");
    ConvertedLayer& line =
        append("linear", layer, {field_of("out", outputs), field_of("bias", scalar_tree(layer.place, "false"))});
    line.name = name;
    line.outputs = integer_of(outputs, "nout", {1});
    line.parameters = {{.classes = {"Linear"}, .name = name}};
    set_init("init", source_.need(layer, "init"), {.rows = static_cast<double>(line.outputs)});
  }

  void add_affine(const Tree& layer) {
    add_linear(layer);
    add_rest_of_compound(layer, layers_.back().name, false);
  }

  void add_convolution(const Tree& layer) {
    const std::string name = name_of(layer, "conv_name");
    const Tree& shape = source_.need(layer, "fshape");
    if (!shape.is_map() && shape.items.size() != 3) refuse(shape, "fshape, expected [height, width, filters]");
    const std::array<int, 2> window = axes(layer, kWindow, {});
    const Tree& filters = shape.is_map() ? source_.need(shape, "K") : shape.items[2];
    int inputs = channels_;
    for (const ConvertedLayer& before : layers_)
      if (before.kind == "conv2d") inputs = before.outputs;
    ConvertedLayer& line =
        append("conv2d", layer,
               {field_of("out", filters), field_of("kernel", size_tree(shape.place, window)),
                axes_field("stride", layer, kStrides, {1, 1}), axes_field("pad", layer, kPadding, {0, 0})});
    if (const auto dilation = axes_field("dilation", layer, kDilation, {1, 1}); dilation.value.text != "1")
      line.fields.push_back(dilation);
    line.fields.push_back(field_of("bias", scalar_tree(layer.place, "false")));
    line.name = name;
    line.outputs = integer_of(filters, "fshape", {1});
    line.parameters = {{.classes = {"Convolution"}, .name = name}};
    set_init("init", source_.need(layer, "init"),
             {.rows = 1.0 * inputs * window[0] * window[1], .columns = line.outputs, .is_convolution = true});
  }

  void add_conv(const Tree& layer) {
    add_convolution(layer);
    add_rest_of_compound(layer, layers_.back().name, true);
  }

  /// What Affine and Conv have behind their weights.
  void add_rest_of_compound(const Tree& layer, const std::string& name, bool is_conv) {
    const auto inner = [&](const char* suffix) { return name.empty() ? name : name + suffix; };
    const Tree* bias = source_.find(layer, "bias");
    const bool is_normalized = source_.flag(layer, "batch_norm");
    if (bias && is_normalized) refuse(*bias, "neon has either a bias or batch_norm; take one of them out");
    if (bias) {
      add_bias(layer, *bias,
               {.classes = {"Bias"}, .name = source_.word(layer, "bias_name", inner("_bias")), .match = "bias"});
      if (is_conv)  // the later versions have both in one layer
        for (NeonParameters& each : layers_.back().parameters) each.classes.push_back("Convolution_bias");
    }
    if (is_normalized)
      append("batch_norm", layer,
             {field_of("momentum", scalar_tree(layer.place, 0.1)), field_of("eps", scalar_tree(layer.place, 1e-3))})
          .parameters = normalization(inner("_bnorm"));
    if (const Tree* activation = source_.find(layer, "activation")) add_transform(*activation);
  }

  void add_pooling(const Tree& layer) {
    const Tree& shape = source_.need(layer, "fshape");
    const std::string op = source_.word(layer, "op", "max");
    if (op != "max" && op != "avg" && op != "l2")
      refuse(*source_.find(layer, "op"), fmt::format("op is {}, expected max, avg or l2", op));
    if (shape.is_scalar() && shape.text == "all") {
      if (op == "l2")
        refuse(*source_.find(layer, "op"),
               "op is l2, expected max or avg where fshape is all; give the image's size as fshape");
      append(fmt::format("global_{}_pool", op), layer);
      return;
    }
    if (!shape.is_scalar() && !shape.is_map() && shape.items.size() != 2)
      refuse(shape, "fshape, expected [height, width]");
    const std::array<int, 2> window = axes(layer, kWindow, {});
    ConvertedLayer& line =
        append(op + "_pool2d", layer,
               {field_of("window", size_tree(shape.place, window)), axes_field("stride", layer, kStrides, window),
                axes_field("pad", layer, kPadding, {0, 0})});
    if (op == "avg") line.fields.push_back(field_of("count_pad", scalar_tree(layer.place, "false")));
  }

  void add_by_table(const char* what, const Tree& object) {
    ConvertedType converted = source_.converted(what, object);
    append(converted.kind, object, std::move(converted.fields));
  }
  void add_same(const Tree& layer) { add_by_table("layer", layer); }

  void add_batch_norm(const Tree& layer) {
    const std::string name = source_.word(layer, "name");
    add_same(layer);
    layers_.back().parameters = normalization(name);
  }

  static std::vector<NeonParameters> normalization(const std::string& name) {
    return {{.classes = {"BatchNorm"}, .name = name, .match = "*"}};
  }

  void add_bias_layer(const Tree& layer) {
    add_bias(layer, source_.need(layer, "init"),
             {.classes = {"Bias"}, .name = source_.word(layer, "name"), .match = "bias"});
  }

  void add_bias(const Tree& layer, const Tree& init, NeonParameters parameters) {
    const bool has_weights = !layers_.empty() && (layers_.back().kind == "linear" || layers_.back().kind == "conv2d");
    if (!has_weights) refuse(layer, "a bias that follows neither a linear layer nor a convolution");
    ConvertedLayer& line = layers_.back();
    if (std::erase_if(line.fields, [](const Tree::Entry& field) { return field.key == "bias"; }) == 0)
      refuse(layer, "a second bias of the same layer; take it out");
    line.parameters.push_back(std::move(parameters));
    set_init("bias_init", init, {.rows = static_cast<double>(line.outputs), .columns = 1});
  }

  void add_activation(const Tree& layer) { add_transform(source_.need(layer, "transform")); }

  void add_transform(const Tree& transform) {
    const std::string type = source_.type_of(transform);
    source_.skip(transform, {"name", "epsilon"});
    if (type == "Identity") return;
    if (type == "Rectlin") {
      const double slope = source_.number(transform, "slope", 0);
      append("relu", transform,
             slope == 0 ? Fields{} : Fields{field_of("slope", source_.number_tree(transform, "slope", 0))});
      return;
    }
    if (type == "Softmax") {
      if (source_.integer(transform, "axis", 0) != 0)
        refuse(transform, "a softmax along another axis than 0 is not converted");
      add_flatten(layers_, transform);  // neon's is over all features
      append("softmax", transform);
      return;
    }
    if (type == "Rectlinclip" && source_.number(transform, "slope", 0) != 0)
      refuse(transform, "a clipped rectifier with a slope has no counterpart; expected slope 0");
    if (type == "Logistic") source_.flag(transform, "shortcut");  // the cost decides whether it may be one
    add_by_table("transform", transform);
  }

  std::string name_of(const Tree& layer, const char* inner) {
    const char* key = "name";
    const Tree* given = source_.find(layer, key);
    if (const Tree* own = source_.find(layer, inner)) key = inner, given = own;
    const std::string name = source_.word(layer, key);
    const bool is_plain =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!is_plain) refuse(*given, fmt::format("{} is \"{}\", expected letters, digits and _", key, name));
    if (std::ranges::any_of(layers_, [&](const ConvertedLayer& l) { return !name.empty() && l.name == name; }))
      refuse(*given, fmt::format("a second layer is named {}; rename one of them", name));
    return name;
  }

  void set_init(const char* field, const Tree& init, const WeightShape& weight) {
    layers_.back().fields.push_back(field_of(field, init_tree(init, weight)));
  }

  Tree init_tree(const Tree& init, const WeightShape& weight) {
    const std::string type = source_.type_of(init);
    const Place& place = init.place;
    source_.skip(init, {"name"});
    const auto uniform = [&](double limit) {
      return choice_tree(place, "uniform",
                         {field_of("low", scalar_tree(place, -limit)), field_of("high", scalar_tree(place, limit))});
    };
    if (type == "GlorotUniform")
      return weight.columns ? uniform(std::sqrt(6 / (weight.rows + *weight.columns)))
                            : choice_tree(place, "glorot", {field_of("gain", scalar_tree(place, 1.0))});
    if (type != "Xavier" && type != "Kaiming") {
      ConvertedType converted = source_.converted("initialiser", init);
      return choice_tree(place, converted.kind, std::move(converted.fields));
    }
    const bool is_local = source_.flag(init, "local", true);
    const std::optional<double> count = is_local ? weight.rows : weight.columns;
    if (type == "Xavier" && count) return uniform(std::sqrt(3 / *count));
    if (type == "Xavier") {
      source_.note("Xavier, uniform in neon, is normal with the same variance");
      return choice_tree(place, "kaiming", {field_of("gain", scalar_tree(place, 1.0))});
    }
    if (!count || (weight.is_convolution && is_local)) return choice_tree(place, "kaiming");
    return choice_tree(
        place, "normal",
        {field_of("deviation", scalar_tree(place, std::sqrt(2 / *count))), field_of("mean", scalar_tree(place, 0.0))});
  }

  /// One integer for both axes, `[height, width]`, or those that a map names.
  std::array<int, 2> axes(const Tree& object, const AxisKeys& keys, std::array<int, 2> otherwise) {
    const Tree* value = source_.find(object, keys.key);
    if (!value) return otherwise;
    if (value->is_list()) {
      if (value->items.size() < 2) refuse(*value, fmt::format("{}, expected [height, width]", keys.key));
      return {integer_of(value->items[0], keys.key), integer_of(value->items[1], keys.key)};
    }
    if (!value->is_map()) {
      const int size = integer_of(*value, keys.key);
      return {size, size};
    }
    if (source_.integer(*value, keys.depth, keys.neutral) != keys.neutral)
      refuse(*value, fmt::format("{} is not {}: nets with three axes are not converted", keys.depth, keys.neutral));
    return {source_.integer(*value, keys.height, otherwise[0]), source_.integer(*value, keys.width, otherwise[1])};
  }

  Tree::Entry axes_field(const char* field, const Tree& object, const AxisKeys& keys, std::array<int, 2> otherwise) {
    const std::array<int, 2> sizes = axes(object, keys, otherwise);
    const Tree* value = source_.find(object, keys.key);
    return field_of(field, size_tree(value ? value->place : object.place, sizes));
  }

  NeonSource& source_;
  int channels_;
  std::vector<ConvertedLayer> layers_;
};

const Converter::LayerRow Converter::kLayers[] = {{"Linear", &Converter::add_linear},
                                                  {"Affine", &Converter::add_affine},
                                                  {"Convolution", &Converter::add_convolution},
                                                  {"Conv", &Converter::add_conv},
                                                  {"Pooling", &Converter::add_pooling},
                                                  {"Dropout", &Converter::add_same},
                                                  {"LRN", &Converter::add_same},
                                                  {"BatchNorm", &Converter::add_batch_norm},
                                                  {"Bias", &Converter::add_bias_layer},
                                                  {"Activation", &Converter::add_activation}};

}  // namespace

Tree ConvertedLayer::tree() const {
  Tree tree = choice_tree(from->place, kind, fields);
  if (name.empty()) return tree;
  if (tree.is_scalar()) tree = map_tree(from->place, {{kind, from->place, map_tree(from->place, {})}});
  tree.entries.push_back(field_of("name", scalar_tree(from->place, name)));
  return tree;
}

std::vector<ConvertedLayer> layers_of_neon(NeonSource& source, const Tree& list, int channels) {
  Converter converter(source, channels);
  for (const Tree& layer : list.items) converter.add(layer);
  return converter.take();
}

const Tree& take_last(std::vector<ConvertedLayer>& layers, const char* kind, const Tree& cost) {
  if (layers.empty() || layers.back().kind != kind)
    refuse(cost, fmt::format("this cost includes the activation {}, expected it in the last layer", kind));
  const Tree& from = *layers.back().from;
  layers.pop_back();
  return from;
}

int outputs_of(const std::vector<ConvertedLayer>& layers, const Tree& cost) {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    if (layer->kind == "linear") return layer->outputs;
  refuse(cost, "this cost adds those of all outputs, whose number is not known without a linear layer");
}

void add_flatten(std::vector<ConvertedLayer>& layers, const Tree& object) {
  if (std::ranges::none_of(layers, [](const ConvertedLayer& layer) { return layer.kind == "flatten"; }))
    layers.push_back({.kind = "flatten", .from = &object});
}

}  // namespace nixie
