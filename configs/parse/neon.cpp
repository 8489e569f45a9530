// Converts the keys that neon's program (bin/neon) reads: layers and training are in the folder neon.
#include "nixie/configs/parse/neon.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "nixie/configs/parse/config.h"
#include "nixie/configs/parse/neon/layers.h"

namespace nixie {
namespace {

constexpr double kBrightest = 255;

class Converter {
 public:
  explicit Converter(const Tree& root) : root_(root), source_(root) {}

  Tree convert() {
    const Tree* layers = source_.find(root_, "layers");
    if (!layers || !layers->is_list()) refuse(root_, "has no list of layers; is it a configuration of neon?");
    const Tree data = data_tree();
    std::vector<ConvertedLayer> converted = layers_of_neon(source_, *layers, data.find("mnist") ? 1 : 3);
    const Tree loss = loss_tree(converted);
    if (!converted.empty()) add_flatten(converted, *converted.back().from);  // neon has rows at the end
    const int epochs = source_.integer(root_, "epochs", 1);
    std::vector<Tree> model;
    for (const ConvertedLayer& layer : converted) model.push_back(layer.tree());
    Fields fields = {field_of("model", list_tree(layers->place, std::move(model))), field_of("data", data),
                     field_of("loss", loss)};
    for (Tree::Entry& field : training_of_neon(source_, converted, epochs)) fields.push_back(std::move(field));
    fields.push_back(field_of("epochs", source_.number_tree(root_, "epochs", epochs)));
    if (is_on_cpu()) fields.push_back(field_of("backend", scalar_tree(root_.place, "cpu")));
    source_.check_taken();
    return map_tree(root_.place, std::move(fields));
  }
  const std::vector<std::string>& notes() const { return source_.notes(); }

 private:
  bool is_on_cpu() {
    const std::string backend = source_.word(root_, "backend", "gpu");
    if (backend != "gpu" && backend != "mgpu" && backend != "cpu" && backend != "mkl")
      refuse(*source_.find(root_, "backend"), fmt::format("backend is {}, expected gpu, mgpu, cpu or mkl", backend));
    return backend == "cpu" || backend == "mkl";
  }

  /// A name or `{type: X, config: {...}}`, also within `costfunc` of a GeneralizedCost.
  Tree loss_tree(std::vector<ConvertedLayer>& layers) {
    const Tree* cost = &source_.need(root_, "cost");
    if (source_.type_of(*cost) == "GeneralizedCost") {
      source_.skip(*cost, {"name"});
      cost = &source_.need(*cost, "costfunc");
    }
    const std::string type = source_.type_of(*cost);
    const auto loss = [&](const char* kind, double weight, Fields fields = {}) {
      const Place& place = cost->place;
      Tree tree = choice_tree(place, kind, std::move(fields));
      if (weight == 1) return tree;
      const Tree weighted =
          map_tree(place, {field_of("loss", std::move(tree)), field_of("weight", scalar_tree(place, weight))});
      return choice_tree(place, "loss_sum", {field_of("losses", list_tree(place, {weighted}))});
    };
    if (type == "CrossEntropyBinary" && !source_.flag(take_last(layers, "sigmoid", *cost), "shortcut"))
      source_.note("the gradient is that of CrossEntropyBinary with shortcut, which neon may not take here");
    if (type == "CrossEntropyMulti") take_last(layers, "softmax", *cost);
    for (const ConvertedLayer& layer : layers) {
      if (layer.kind == "sigmoid" && source_.flag(*layer.from, "shortcut"))
        refuse(*layer.from, "shortcut without CrossEntropyBinary behind it has another gradient; take it out");
      if (layer.kind == "softmax")
        refuse(*layer.from,
               "a Softmax that is not the last layer before CrossEntropyMulti has another gradient in neon, "
               "which takes its derivative as 1; take it out");
    }
    if (type == "CrossEntropyMulti") {
      const double unit = source_.flag(*cost, "usebits") ? 1 / std::log(2.0) : 1;
      return loss("cross_entropy", unit * source_.number(*cost, "scale", 1));
    }
    if (type == "CrossEntropyBinary")
      return loss("binary_cross_entropy", outputs_of(layers, *cost) * source_.number(*cost, "scale", 1));
    if (type == "MeanSquared") return loss("mean_squared", 0.5);
    if (type == "SumSquared") return loss("mean_squared", outputs_of(layers, *cost) / 2.0);
    if (type == "SmoothL1Loss") {
      const double sigma = source_.number(*cost, "sigma", 1);
      if (sigma == 0) refuse(*source_.find(*cost, "sigma"), "sigma is 0, expected another number");
      return loss("smooth_l1", outputs_of(layers, *cost),
                  {field_of("beta", scalar_tree(cost->place, 1 / (sigma * sigma)))});
    }
    if (type == "SquareHingeLoss") return loss("squared_hinge", 1, source_.converted("cost", *cost).fields);
    refuse(*cost, fmt::format("cost {} has no counterpart that this converter knows", type));
  }

  Tree data_tree() {
    const Tree& dataset = source_.need(root_, "dataset");
    const std::string given = source_.word(dataset, "name");
    std::string name = given;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const Tree::Entry batch = field_of("batch", source_.number_tree(root_, "batchsize", 128));
    const auto words = [&](Fields fields, std::initializer_list<std::pair<const char*, const char*>> others) {
      for (const auto& [key, text] : others) fields.push_back(field_of(key, scalar_tree(dataset.place, text)));
      return fields;
    };
    if (name == "mnist")
      return choice_tree(dataset.place, "mnist", words({batch}, {{"path", "mnist"}, {"normalize", "false"}}));
    if (name == "cifar10")
      return choice_tree(dataset.place, "cifar10",
                         words({batch}, {{"normalize", "false"}, {"pad", "0"}, {"flip", "false"}}));
    if (name == "i1k")
      return choice_tree(dataset.place, "image_folder", words(pictures(dataset, batch), {{"path", "images"}}));
    refuse(dataset,
           fmt::format("dataset \"{}\", expected mnist, cifar10 or i1k; change it and then use --data", given));
  }

  /// ImageNet as neon reads it: crops of the scaled picture, from which a mean colour is taken.
  Fields pictures(const Tree& dataset, const Tree::Entry& batch) {
    int crop = 224;
    double scale = 0.875;
    bool flip = true;
    for (const bool trains : {true, false}) {
      const Tree* config = source_.find(dataset, trains ? "train_config" : "test_config");
      if (!config) continue;
      for (const char* key : {"shuffle_manifest", "shuffle_every_epoch", "shuffle_enable"})
        if (!source_.flag(*config, key, true) && trains)
          refuse(*source_.find(*config, key), "training samples are always shuffled; take it out");
      if (const Tree* label = source_.find(*config, "label"))
        if (source_.flag(*label, "binary")) refuse(*label, "binary labels are not converted");
      const Tree& image = source_.need(*config, "image");
      const int height = source_.integer(image, "height", crop), width = source_.integer(image, "width", height);
      const double share = share_of(image);
      if (trains) crop = height, scale = share, flip = source_.flag(image, "flip_enable");
      if (height != width || height != crop || share != scale)
        refuse(image, "expected squares of the same size and scale for training and test");
      if (!trains && source_.flag(image, "flip_enable")) refuse(image, "flip_enable of the test half is not converted");
      if (source_.flag(image, "center", true) == trains)
        refuse(image, trains ? "training crops at random, expected center: false"
                             : "the test half is cropped from the centre, expected center: true");
    }
    const auto number = [&](double value) { return scalar_tree(dataset.place, value); };
    std::vector<Tree> mean, deviation;
    for (const double colour : {127, 119, 104}) {
      mean.push_back(number(colour / kBrightest));
      deviation.push_back(number(1 / kBrightest));
    }
    return {batch,
            field_of("crop", number(crop)),
            field_of("resize", number(std::round(crop / scale))),
            field_of("flip", scalar_tree(dataset.place, flip ? "true" : "false")),
            field_of("mean", list_tree(dataset.place, std::move(mean))),
            field_of("deviation", list_tree(dataset.place, std::move(deviation)))};
  }
  /// The side of the crop as a share of the picture's short side: `scale: [0.875, 0.875]`.
  double share_of(const Tree& image) {
    const Tree* scale = source_.find(image, "scale");
    if (!scale) return 1;
    const bool is_one = scale->is_list() && scale->items.size() == 2 && scale->items[0].text == scale->items[1].text;
    if (!is_one) refuse(*scale, "scale, expected two equal numbers");
    return number_of(scale->items[0], "scale");
  }

  const Tree& root_;
  NeonSource source_;
};

/// An item of a list, without the braces of its only field.
std::string item_text(const Tree& item) {
  if (!item.is_map() || item.entries.size() != 1) return print_flow(item);
  return item.entries[0].key + ": " + print_flow(item.entries[0].value);
}

/// A line for each key, and for each item of a list.
std::string text_of(const Tree& config) {
  std::string text;
  for (const Tree::Entry& entry : config.entries) {
    if (!entry.value.is_list()) {
      text += fmt::format("{}: {}\n", entry.key, print_flow(entry.value));
      continue;
    }
    text += entry.key + ":\n";
    for (const Tree& item : entry.value.items) text += "  - " + item_text(item) + "\n";
  }
  return text;
}

}  // namespace

std::string neon_config(const std::filesystem::path& file) {
  const Tree root = load_yaml(file, RepeatedKeys::last_at_root);
  Converter converter(root);
  const Tree config = converter.convert();
  read_config(config);  // values out of range are reported at their places in neon's file
  std::string text = fmt::format("# {}, converted from neon.\n", one_line(file.filename().string()));
  for (const std::string& note : converter.notes()) text += "# " + one_line(note) + "\n";
  return text + text_of(config);
}

}  // namespace nixie
