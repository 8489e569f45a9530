// The layers of neon/layers/layer.py with their defaults, and neon/initializers.
#include "nixie/configs/parse/neon/layers.h"

#include <algorithm>
#include <cmath>

#include "nixie/core/base/error.h"

namespace nixie {
namespace {

Tree size_tree(const Place& place, std::array<int, 2> sizes) {
  const auto number = [&](int size) { return scalar_tree(place, std::to_string(size)); };
  return sizes[0] == sizes[1] ? number(sizes[0]) : list_tree(place, {number(sizes[0]), number(sizes[1])});
}

}  // namespace

Tree ConvertedLayer::tree() const {
  Tree tree = choice_tree(from->place, kind, fields);
  if (name.empty()) return tree;
  if (tree.is_scalar()) tree = map_tree(from->place, {{kind, from->place, map_tree(from->place, {})}});
  tree.entries.push_back(field_of("name", scalar_tree(from->place, name)));
  return tree;
}

void NeonLayers::add(const Tree& layer) {
  static const std::map<std::string, void (NeonLayers::*)(const Tree&)> kLayers = {
      {"Linear", &NeonLayers::add_linear},
      {"Affine", &NeonLayers::add_affine},
      {"Convolution", &NeonLayers::add_convolution},
      {"Conv", &NeonLayers::add_conv},
      {"Pooling", &NeonLayers::add_pooling},
      {"Dropout", &NeonLayers::add_dropout},
      {"LRN", &NeonLayers::add_lrn},
      {"BatchNorm", &NeonLayers::add_batch_norm},
      {"Bias", &NeonLayers::add_bias},
      {"Activation", &NeonLayers::add_activation}};
  const std::string type = source_.type_of(layer);
  const auto add = kLayers.find(type);
  if (add == kLayers.end()) refuse(layer, fmt::format("layer {} has no counterpart that this converter knows", type));
  source_.skip(layer, {"name", "parallelism", "bsum"});
  (this->*add->second)(layer);
}

const Tree& NeonLayers::take_last(const char* kind, const Tree& cost) {
  if (layers_.empty() || layers_.back().kind != kind)
    refuse(cost, fmt::format("this cost includes the activation {}, expected it in the last layer", kind));
  const Tree& from = *layers_.back().from;
  layers_.pop_back();
  return from;
}

int NeonLayers::outputs(const Tree& cost) const {
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer)
    if (layer->kind == "linear") return layer->outputs;
  refuse(cost, "this cost adds those of all outputs, whose number is not known without a linear layer");
}

void NeonLayers::finish() {
  if (!layers_.empty()) flatten(*layers_.back().from);
}

ConvertedLayer& NeonLayers::append(const std::string& kind, const Tree& from, Fields fields) {
  return layers_.emplace_back(ConvertedLayer{.kind = kind, .from = &from, .fields = std::move(fields)});
}

void NeonLayers::flatten(const Tree& layer) {
  if (std::none_of(layers_.begin(), layers_.end(), [](const ConvertedLayer& l) { return l.kind == "flatten"; }))
    append("flatten", layer);
}

void NeonLayers::add_linear(const Tree& layer) {
  flatten(layer);
  const std::string name = name_of(layer, "linear_name");
  const Tree& outputs = source_.need(layer, "nout");
  ConvertedLayer& line =
      append("linear", layer, {field_of("out", outputs), field_of("bias", scalar_tree(layer.place, "false"))});
  line.name = name;
  line.outputs = integer_of(outputs, "nout", {1});
  line.parameters = {{.classes = {"Linear"}, .name = name}};
  set_init("init", source_.need(layer, "init"), {.rows = static_cast<double>(line.outputs)});
}

void NeonLayers::add_affine(const Tree& layer) {
  add_linear(layer);
  add_rest_of_compound(layer, layers_.back().name, false);
}

void NeonLayers::add_convolution(const Tree& layer) {
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

void NeonLayers::add_conv(const Tree& layer) {
  add_convolution(layer);
  add_rest_of_compound(layer, layers_.back().name, true);
}

/// What Affine and Conv have behind their weights.
void NeonLayers::add_rest_of_compound(const Tree& layer, const std::string& name, bool is_conv) {
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
    add_normalization(layer, inner("_bnorm"), scalar_tree(layer.place, 0.1), scalar_tree(layer.place, 1e-3));
  if (const Tree* activation = source_.find(layer, "activation")) add_transform(*activation);
}

void NeonLayers::add_pooling(const Tree& layer) {
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

void NeonLayers::add_dropout(const Tree& layer) {
  append("dropout", layer, {field_of("rate", source_.rest_tree(layer, "keep", 0.5))});
}

void NeonLayers::add_lrn(const Tree& layer) {
  append("lrn", layer,
         {field_of("size", source_.need(layer, "depth")), field_of("alpha", source_.number_tree(layer, "ascale", 1)),
          field_of("beta", source_.number_tree(layer, "bpower", 1)), field_of("bias", scalar_tree(layer.place, 1.0))});
}

void NeonLayers::add_batch_norm(const Tree& layer) {
  add_normalization(layer, source_.word(layer, "name"), source_.rest_tree(layer, "rho", 0.9),
                    source_.number_tree(layer, "eps", 1e-3));
}

void NeonLayers::add_normalization(const Tree& layer, const std::string& name, Tree momentum, Tree eps) {
  append("batch_norm", layer, {field_of("momentum", std::move(momentum)), field_of("eps", std::move(eps))})
      .parameters = {{.classes = {"BatchNorm"}, .name = name, .match = "*"}};
}

void NeonLayers::add_bias(const Tree& layer) {
  add_bias(layer, source_.need(layer, "init"),
           {.classes = {"Bias"}, .name = source_.word(layer, "name"), .match = "bias"});
}

void NeonLayers::add_bias(const Tree& layer, const Tree& init, NeonParameters parameters) {
  const bool has_weights = !layers_.empty() && (layers_.back().kind == "linear" || layers_.back().kind == "conv2d");
  if (!has_weights) refuse(layer, "a bias that follows neither a linear layer nor a convolution");
  ConvertedLayer& line = layers_.back();
  if (std::erase_if(line.fields, [](const Tree::Entry& field) { return field.key == "bias"; }) == 0)
    refuse(layer, "a second bias of the same layer; take it out");
  line.parameters.push_back(std::move(parameters));
  set_init("bias_init", init, {.rows = static_cast<double>(line.outputs), .columns = 1});
}

void NeonLayers::add_activation(const Tree& layer) { add_transform(source_.need(layer, "transform")); }

void NeonLayers::add_transform(const Tree& transform) {
  const std::string type = source_.type_of(transform);
  source_.skip(transform, {"name", "epsilon"});
  if (type == "Identity") return;
  if (type == "Rectlin") {
    const double slope = source_.number(transform, "slope", 0);
    append("relu", transform,
           slope == 0 ? Fields{} : Fields{field_of("slope", source_.number_tree(transform, "slope", 0))});
  } else if (type == "Rectlinclip") {
    if (source_.number(transform, "slope", 0) != 0)
      refuse(transform, "a clipped rectifier with a slope has no counterpart; expected slope 0");
    append("relu_clipped", transform, {field_of("cut", source_.number_tree(transform, "xcut", 20))});
  } else if (type == "Explin") {
    append("elu", transform, {field_of("alpha", source_.number_tree(transform, "alpha", 1))});
  } else if (type == "Logistic") {
    source_.flag(transform, "shortcut");  // the cost decides whether it may be one
    append("sigmoid", transform);
  } else if (type == "Tanh") {
    append("tanh", transform);
  } else if (type == "Softmax") {
    if (source_.integer(transform, "axis", 0) != 0)
      refuse(transform, "a softmax along another axis than 0 is not converted");
    flatten(transform);  // it is of all features
    append("softmax", transform);
  } else {
    refuse(transform, fmt::format("transform {} has no counterpart that this converter knows", type));
  }
}

std::string NeonLayers::name_of(const Tree& layer, const char* inner) {
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

void NeonLayers::set_init(const char* field, const Tree& init, const WeightShape& weight) {
  layers_.back().fields.push_back(field_of(field, init_tree(init, weight)));
}

Tree NeonLayers::init_tree(const Tree& init, const WeightShape& weight) {
  const std::string type = source_.type_of(init);
  const Place& place = init.place;
  source_.skip(init, {"name"});
  const auto uniform = [&](double limit) {
    return choice_tree(place, "uniform",
                       {field_of("low", scalar_tree(place, -limit)), field_of("high", scalar_tree(place, limit))});
  };
  const auto normal = [&](Tree deviation, Tree mean) {
    return choice_tree(place, "normal",
                       {field_of("deviation", std::move(deviation)), field_of("mean", std::move(mean))});
  };
  if (type == "Constant")
    return choice_tree(place, "constant", {field_of("value", source_.number_tree(init, "val", 0))});
  if (type == "Gaussian") return normal(source_.number_tree(init, "scale", 1), source_.number_tree(init, "loc", 0));
  if (type == "Uniform")
    return choice_tree(
        place, "uniform",
        {field_of("low", source_.number_tree(init, "low", 0)), field_of("high", source_.number_tree(init, "high", 1))});
  if (type == "GlorotUniform")
    return weight.columns ? uniform(std::sqrt(6 / (weight.rows + *weight.columns)))
                          : choice_tree(place, "glorot", {field_of("gain", scalar_tree(place, 1.0))});
  if (type == "Orthonormal")
    return choice_tree(place, "orthonormal", {field_of("scale", source_.number_tree(init, "scale", 1.1))});
  if (type != "Xavier" && type != "Kaiming") refuse(init, fmt::format("initialiser {} is not known", type));
  const bool is_local = source_.flag(init, "local", true);
  const std::optional<double> count = is_local ? weight.rows : weight.columns;
  if (type == "Xavier" && count) return uniform(std::sqrt(3 / *count));
  if (type == "Xavier") {
    source_.note("Xavier, uniform in neon, is normal with the same variance");
    return choice_tree(place, "kaiming", {field_of("gain", scalar_tree(place, 1.0))});
  }
  if (!count || (weight.is_convolution && is_local)) return choice_tree(place, "kaiming");
  return normal(scalar_tree(place, std::sqrt(2 / *count)), scalar_tree(place, 0.0));
}

/// One integer for both axes, `[height, width]`, or those that a map names.
std::array<int, 2> NeonLayers::axes(const Tree& object, const AxisKeys& keys, std::array<int, 2> otherwise) {
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

Tree::Entry NeonLayers::axes_field(const char* field, const Tree& object, const AxisKeys& keys,
                                   std::array<int, 2> otherwise) {
  const std::array<int, 2> sizes = axes(object, keys, otherwise);
  const Tree* value = source_.find(object, keys.key);
  return field_of(field, size_tree(value ? value->place : object.place, sizes));
}

}  // namespace nixie
