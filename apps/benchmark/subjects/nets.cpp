// The lists of nets. Differences from models/ are written into the net's own description, the text of a configuration.
#include "nixie/apps/benchmark/subjects/nets.h"

#include <functional>

#include "nixie/models/nets/nets.h"

namespace nixie::benchmark {
namespace {

/// A convolution with batch norm and ReLU.
void add_normalized(Sequential& layers, int out, bool bias) {
  layers.add(Conv2d{.out = out, .kernel = 3, .pad = 1, .bias = bias}).add(BatchNorm{}).add(Relu{});
}

/// Two of 32 channels, one of 64.
Sequential cifar_bn() {
  Sequential layers;
  for (int i = 0; i < 2; ++i) add_normalized(layers, 32, true);
  layers.add(MaxPool2d{.window = 2});
  add_normalized(layers, 64, true);
  return layers.add(MaxPool2d{.window = 2}).add(Flatten{}).add(Linear{.out = 10});
}

/// configs/cifar10.yaml without its dropout.
Sequential cifar10() {
  Sequential layers;
  for (const int out : {32, 64}) {
    for (int i = 0; i < 2; ++i) add_normalized(layers, out, false);
    layers.add(MaxPool2d{.window = 2});
  }
  return layers.add(Flatten{}).add(Dropout{.rate = 0}).add(Linear{.out = 10});
}

OptimizerOptions sgd(double weight_decay, double rate) {
  return {.rule = Sgd{.momentum = 0.9, .weight_decay = weight_decay}, .schedule = ConstantRate{.rate = rate}};
}

/// Calls `edit` with the kind and the fields of every layer, those inside containers too.
void for_each_layer(Tree& tree, const std::function<void(const std::string& kind, Tree& fields)>& edit) {
  for (Tree& item : tree.items) for_each_layer(item, edit);
  for (Tree::Entry& entry : tree.entries) {
    if (entry.value.is_map()) edit(entry.key, entry.value);
    for_each_layer(entry.value, edit);
  }
}

void set(Tree& fields, const std::string& key, const std::string& value) {
  if (Tree* field = fields.find(key)) *field = scalar_tree(field->place, value);
}

AnyModel edited(const AnyModel& model, const std::function<void(Tree& layers)>& edit) {
  Tree tree = parse_yaml("model: " + model.layers().text(), model.kind());
  edit(*tree.find("model"));
  AnyModel result;
  Problems problems;
  read_value(*tree.find("model"), result, problems);
  problems.raise();
  return result;
}

void drop_dropout(Tree& layers) {
  for_each_layer(layers, [](const std::string& kind, Tree& fields) {
    if (kind == Dropout::name) set(fields, "rate", "0");
  });
}

void make_nervanas(Tree& layers) {
  Tree* last = nullptr;
  for_each_layer(layers, [&](const std::string& kind, Tree& fields) {
    if (kind != Conv2d::name && kind != Linear::name) return;
    set(fields, "bias", "false");
    if (kind != Linear::name) return;
    if (last) set(*last, "out", "3072");
    last = &fields;
  });
  const Tree relu = parse_yaml("layer: relu", "relu");
  layers.items.push_back(*relu.find("layer"));
}

nlohmann::json json_of(const Tree& tree) {
  nlohmann::json json;
  switch (tree.kind) {
    case Tree::Kind::null:
      break;
    case Tree::Kind::scalar:
      json = tree.quoted ? nlohmann::json(tree.text) : nlohmann::json::parse(tree.text, nullptr, false);
      if (json.is_discarded()) json = tree.text;  // a word
      break;
    case Tree::Kind::list:
      json = nlohmann::json::array();
      for (const Tree& item : tree.items) json.push_back(json_of(item));
      break;
    case Tree::Kind::map:
      json = nlohmann::json::object();
      for (const Tree::Entry& entry : tree.entries) json[entry.key] = json_of(entry.value);
      break;
  }
  return json;
}

}  // namespace

std::vector<Net> step_nets() {
  const OptimizerOptions training = sgd(0, 0.01);
  return {
      {"mlp", Mlp{}, {1, 28, 28}, 10, 128, 128, CrossEntropy{}, training},
      {"lenet", Lenet{}, {1, 28, 28}, 10, 64, 64, CrossEntropy{}, training},
      {"cifar_bn", cifar_bn(), {3, 32, 32}, 10, 64, 64, CrossEntropy{}, training},
      {"alexnet", Alexnet{.dropout = 0}, {3, 224, 224}, 1000, 16, 16, CrossEntropy{}, training},
  };
}

OptimizerOptions common_training() { return sgd(5e-4, 1e-3); }

std::vector<Net> conv_nets(bool nervana) {
  const Shape image{3, 224, 224}, small_image{3, 32, 32};
  const AnyLoss loss = CrossEntropy{};
  const OptimizerOptions training = common_training();
  std::vector<Net> nets = {
      {"alexnet", Alexnet{.dropout = 0}, image, 1000, 128, 8, loss, training},
      {"overfeat", Overfeat{.dropout = 0}, {3, 231, 231}, 1000, 128, 2, loss, training},
      {"vgg_a", Vgg<11>{.dropout = 0}, image, 1000, 64, 1, loss, training},
      {"vgg_e", Vgg<19>{.dropout = 0}, image, 1000, 64, 1, loss, training},
      {"googlenet", Googlenet{.dropout = 0}, image, 1000, 128, 2, loss, training},
  };
  if (nervana) {
    for (Net& net : nets) net.model = edited(net.model, make_nervanas);
    return nets;
  }
  const Net others[] = {
      {"resnet18", Resnet<18>{}, image, 1000, 256, 4, loss, training},
      {"resnet50", Resnet<50>{}, image, 1000, 128, 2, loss, training},
      {"mobilenet_v1", MobilenetV1{.dropout = 0}, image, 1000, 128, 4, loss, training},
      {"mobilenet_v2", MobilenetV2{.dropout = 0}, image, 1000, 128, 4, loss, training},
      {"googlenet_bn", GooglenetBn{.dropout = 0}, image, 1000, 128, 4, loss, training},
      {"vgg16", Vgg<16>{.dropout = 0}, image, 1000, 64, 1, loss, training},
      {"densenet121", Densenet121{}, image, 1000, 128, 2, loss, training},
      {"inception_v3", InceptionV3{.dropout = 0}, {3, 299, 299}, 1000, 128, 2, loss, training},
      {"cifar10", cifar10(), small_image, 10, 512, 64, loss, training},
      {"mlp", Mlp{.classes = 1000, .hidden = {4096, 4096, 4096, 4096}}, small_image, 1000, 1024, 64, loss, training},
  };
  nets.insert(nets.end(), std::begin(others), std::end(others));
  return nets;
}

Net scaling_net(int batch, int depth, int side) {
  Sequential layers;
  for (int i = 0; i < depth; ++i) layers.add(Conv2d{.out = 64, .kernel = 3, .pad = 1}).add(Relu{});
  layers.add(GlobalAvgPool{}).add(Flatten{}).add(Linear{.out = 10});
  return {.name = fmt::format("conv{}", depth),
          .model = layers,
          .sample = {3, side, side},
          .classes = 10,
          .batch = batch,
          .cpu_batch = batch,
          .training = {.rule = Sgd{}, .schedule = ConstantRate{.rate = 1e-3}},
          .output_gradient = static_cast<double>(side)};
}

Net config_net(const TrainConfig& config, const std::string& name) {
  const Splits data = config.data.open();
  const int batch = static_cast<int>(config.data.batch());
  const std::int64_t steps_per_epoch = std::max<std::int64_t>(1, data.train->size() / batch);
  const double epoch = static_cast<double>(steps_per_epoch);
  return {
      .name = name,
      .model = edited(config.model, drop_dropout),
      .sample = data.train->sample_shape(),
      .classes = static_cast<int>(data.train->classes()),
      .batch = batch,
      .cpu_batch = batch,
      .loss = config.loss,
      .training = {.rule = config.optimizer,
                   .schedule = config.schedule,
                   .freeze = config.freeze,
                   .groups = config.parameter_groups,
                   .clip_value = config.clip_value,
                   .clip_norm = config.clip_norm},
      .run = {.steps_per_epoch = epoch, .epochs = static_cast<double>(config.total_steps(steps_per_epoch)) / epoch}};
}

nlohmann::json layers_json(const AnyModel& model) {
  return json_of(*parse_yaml("layers: " + model.layers().text(), model.kind()).find("layers"));
}

nlohmann::json peer_request(const Net& net, const std::string& precision, int batch) {
  std::vector<std::int64_t> input{1};
  input.insert(input.end(), net.sample.begin(), net.sample.end());
  return {{"net", net.name},
          {"kind", net.model.kind()},
          {"layers", layers_json(net.model)},
          {"parameters", Model(net.model, Shape(input)).parameters().count()},
          {"sample", net.sample.sizes()},
          {"classes", net.classes},
          {"precision", precision},
          {"batch", batch}};
}

}  // namespace nixie::benchmark
