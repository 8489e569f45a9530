// Converts neon's layers to nixie's: a bias joins the layer before it, and the cost includes the last activation.
#include "nixie/configs/parse/neon.h"

#include <algorithm>
#include <map>
#include <optional>

#include "nixie/configs/parse/config.h"

namespace nixie {
namespace {

[[noreturn]] void refuse(const Tree& at, const std::string& what) {
  fail(Fault::usage, to_string(at.place), ": ", what);
}

/// The value of a field, which stands beside `type` or under `config`.
const Tree* option(const Tree& tree, const char* key) {
  if (const Tree* found = tree.find(key)) return found;
  const Tree* config = tree.find("config");
  return config ? config->find(key) : nullptr;
}

std::string text(const Tree* tree, const std::string& otherwise) {
  return tree && tree->is_scalar() ? tree->text : otherwise;
}
std::string text(const Tree& tree, const char* key, const std::string& otherwise) {
  return text(option(tree, key), otherwise);
}
double number(const Tree& tree, const char* key, double otherwise) {
  const Tree* value = option(tree, key);
  if (!value || value->is_null()) return otherwise;
  try {
    std::size_t end = 0;
    const double result = std::stod(value->text, &end);
    if (end == value->text.size()) return result;
  } catch (const std::exception&) {  // no number at all
  }
  refuse(*value, fmt::format("{} is \"{}\", expected a number", key, value->text));
}

/// `type: X`, or the word alone.
std::string type_of(const Tree& tree) {
  if (tree.is_scalar()) return tree.text;
  const Tree* type = tree.find("type");
  if (!type) refuse(tree, "has no type, which every layer, transform and optimizer of neon has");
  return type->text;
}

std::string init_text(const Tree* init) {
  if (!init || init->is_null()) return {};
  const std::string type = type_of(*init);
  if (type == "Constant") return fmt::format("{{constant: {{value: {}}}}}", number(*init, "val", 0));
  if (type == "Gaussian")
    return fmt::format("{{normal: {{deviation: {}, mean: {}}}}}", number(*init, "scale", 1), number(*init, "loc", 0));
  if (type == "Uniform")
    return fmt::format("{{uniform: {{low: {}, high: {}}}}}", number(*init, "low", 0), number(*init, "high", 1));
  if (type == "GlorotUniform") return "{glorot: {gain: 1}}";
  if (type == "Xavier") return "{kaiming: {gain: 1}}";
  if (type == "Kaiming") return "kaiming";
  if (type == "Orthonormal") return fmt::format("{{orthonormal: {{scale: {}}}}}", number(*init, "scale", 1.1));
  refuse(*init, fmt::format("initialiser {} is not known", type));
}

/// One number, or one for each axis: `3`, `[3, 5]`, `{pad_h: 1, pad_w: 2}`.
std::string per_axis(const Tree& tree, const char* key, const std::string& otherwise, std::size_t axes = 2) {
  const Tree* value = option(tree, key);
  if (!value || value->is_null()) return otherwise;
  if (value->is_scalar()) return value->text;
  std::vector<std::string> numbers;
  for (const Tree& item : value->items) numbers.push_back(item.text);
  for (const Tree::Entry& entry : value->entries) numbers.push_back(entry.value.text);
  if (numbers.size() < axes) refuse(*value, fmt::format("{} has {} numbers, expected {}", key, numbers.size(), axes));
  numbers.resize(axes);
  return numbers[0] == numbers[1] ? numbers[0] : fmt::format("[{}]", fmt::join(numbers, ", "));
}

struct Line {
  std::string kind;                 ///< of nixie
  std::string name = {};            ///< of its parameters
  std::vector<std::string> fields;  ///< `out: 100`
  const Tree* from = nullptr;

  std::string str() const {
    const std::string body = fields.empty() ? kind : fmt::format("{}: {{{}}}", kind, fmt::join(fields, ", "));
    if (name.empty()) return body;
    return fmt::format("{{{}, name: {}}}", fields.empty() ? kind + ": {}" : body, name);
  }
};

class Converter {
 public:
  explicit Converter(const Tree& tree) : tree_(tree) {}

  std::string convert(const std::string& source) {
    const Tree* layers = tree_.find("layers");
    if (!layers || !layers->is_list()) refuse(tree_, "has no list of layers; is it a configuration of neon?");
    for (const Tree& layer : layers->items) add(layer);
    const std::string loss = loss_text(), optimizer = optimizer_text();
    std::string out = fmt::format("# {}, converted from neon.\n", source);
    for (const std::string& note : notes_) out += "# " + note + "\n";
    out += "model:\n";
    for (const Line& line : lines_) out += "  - " + line.str() + "\n";
    return out + data_text() + loss + optimizer + fmt::format("epochs: {}\n", number(tree_, "epochs", 10)) +
           (text(tree_, "backend", "gpu") == "gpu" ? "" : "backend: cpu\n");
  }

 private:
  void add(const Tree& layer) {
    const std::string type = type_of(layer);
    const std::size_t before = lines_.size();
    if (type == "Linear" || type == "Affine") {
      flatten(layer);
      lines_.push_back(
          {"linear", name_of(layer, "linear_name"), {"out: " + text(layer, "nout", "0"), "bias: false"}, &layer});
      add_init(layer);
    } else if (type == "Convolution" || type == "Conv") {
      const Tree* shape = option(layer, "fshape");
      const std::size_t sizes = shape ? std::max(shape->items.size(), shape->entries.size()) : 0;
      if (sizes != 3) refuse(layer, "fshape, expected [height, width, filters]");
      lines_.push_back({"conv2d",
                        name_of(layer, "conv_name"),
                        {"out: " + (shape->is_list() ? shape->items[2] : shape->entries[2].value).text,
                         "kernel: " + per_axis(layer, "fshape", "1"), "stride: " + per_axis(layer, "strides", "1"),
                         "pad: " + per_axis(layer, "padding", "0"), "bias: false"},
                        &layer});
      add_init(layer);
    } else if (type == "Pooling") {
      const std::string op = text(layer, "op", "max"), shape = per_axis(layer, "fshape", "2");
      if (shape == "all") {
        lines_.push_back({op == "avg" ? "global_avg_pool" : "global_max_pool", {}, {}, &layer});
      } else {
        if (op != "max" && op != "avg" && op != "l2")
          refuse(layer, fmt::format("op is {}, expected max, avg or l2", op));
        lines_.push_back({op + "_pool2d",
                          {},
                          {"window: " + shape, "stride: " + per_axis(layer, "strides", shape),
                           "pad: " + per_axis(layer, "padding", "0")},
                          &layer});
      }
    } else if (type == "Dropout") {
      lines_.push_back({"dropout", {}, {fmt::format("rate: {:g}", 1 - number(layer, "keep", 0.5))}, &layer});
    } else if (type == "LRN") {
      lines_.push_back({"lrn",
                        {},
                        {"size: " + text(layer, "depth", "5"), fmt::format("alpha: {}", number(layer, "ascale", 1)),
                         fmt::format("beta: {}", number(layer, "bpower", 1))},
                        &layer});
    } else if (type == "BatchNorm") {
      add_batch_norm(layer);
    } else if (type == "Bias") {
      add_bias(layer, option(layer, "init"));
    } else if (type == "Activation") {
      const Tree* transform = option(layer, "transform");
      if (!transform) refuse(layer, "an activation without a transform");
      add_activation(*transform);
    } else {
      refuse(layer, fmt::format("layer {} has no counterpart that this converter knows", type));
    }
    if (before == lines_.size() || (type != "Affine" && type != "Conv")) return;
    if (const Tree* bias = option(layer, "bias"); bias && !bias->is_null()) add_bias(layer, bias);
    if (text(layer, "batch_norm", "false") == "true" || text(layer, "batch_norm", "") == "True") add_batch_norm(layer);
    if (const Tree* activation = option(layer, "activation")) add_activation(*activation);
  }

  static std::string name_of(const Tree& layer, const char* inner) {
    const std::string name = text(layer, inner, text(layer, "name", ""));
    const bool is_plain =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!is_plain) refuse(layer, fmt::format("name \"{}\", expected letters, digits and _", name));
    return name;
  }
  void flatten(const Tree& layer) {
    const bool is_flat = std::any_of(lines_.begin(), lines_.end(), [](const Line& l) { return l.kind == "flatten"; });
    if (!is_flat) lines_.push_back({"flatten", {}, {}, &layer});
  }
  void add_init(const Tree& layer) {
    if (const std::string init = init_text(option(layer, "init")); !init.empty())
      lines_.back().fields.push_back("init: " + init);
  }
  void add_batch_norm(const Tree& layer) {
    lines_.push_back({"batch_norm",
                      {},
                      {fmt::format("momentum: {:g}", 1 - number(layer, "rho", 0.9)),
                       fmt::format("eps: {:g}", number(layer, "eps", 1e-3))},
                      &layer});
  }
  void add_bias(const Tree& layer, const Tree* init) {
    const bool has_weights = !lines_.empty() && (lines_.back().kind == "linear" || lines_.back().kind == "conv2d");
    if (!has_weights) refuse(layer, "a bias that follows neither a linear layer nor a convolution");
    std::vector<std::string>& fields = lines_.back().fields;
    std::erase(fields, "bias: false");
    if (const std::string text = init_text(init); !text.empty()) fields.push_back("bias_init: " + text);
  }
  void add_activation(const Tree& transform) {
    const std::string type = type_of(transform);
    static const std::map<std::string, std::string> kKinds = {
        {"Rectlin", "relu"}, {"Logistic", "sigmoid"}, {"Tanh", "tanh"}, {"Softmax", "softmax"}, {"Explin", "elu"}};
    if (type == "Identity") return;
    const auto kind = kKinds.find(type);
    if (kind == kKinds.end())
      refuse(transform, fmt::format("transform {} has no counterpart that this converter knows", type));
    Line line{kind->second, {}, {}, &transform};
    if (type == "Rectlin" && number(transform, "slope", 0) != 0)
      line.fields.push_back(fmt::format("slope: {}", number(transform, "slope", 0)));
    if (type == "Explin") line.fields.push_back(fmt::format("alpha: {}", number(transform, "alpha", 1)));
    lines_.push_back(line);
  }

  /// Outputs of the net: neon adds the costs of all outputs, nixie takes their mean.
  std::string outputs() const {
    for (auto line = lines_.rbegin(); line != lines_.rend(); ++line)
      if (line->kind == "linear") return line->fields[0].substr(5);
    refuse(tree_, "has no linear layer, so that the number of outputs is not known");
  }
  void take_last(const char* kind, const Tree& cost) {
    if (lines_.empty() || lines_.back().kind != kind)
      refuse(cost, fmt::format("this cost includes the activation {}, expected it in the last layer", kind));
    lines_.pop_back();
  }
  std::string loss_text() {
    const Tree* cost = tree_.find("cost");
    if (!cost) refuse(tree_, "has no cost");
    const std::string type = type_of(*cost);
    if (type == "CrossEntropyMulti") {
      take_last("softmax", *cost);
      return "loss: cross_entropy\n";
    }
    if (type == "CrossEntropyBinary") {
      take_last("sigmoid", *cost);
      return fmt::format("loss: {{loss_sum: {{losses: [{{loss: binary_cross_entropy, weight: {}}}]}}}}\n", outputs());
    }
    if (type == "SumSquared" || type == "MeanSquared")
      return type == "MeanSquared"
                 ? "loss: mean_squared\n"
                 : fmt::format("loss: {{loss_sum: {{losses: [{{loss: mean_squared, weight: {:g}}}]}}}}\n",
                               std::stod(outputs()) / 2);
    refuse(*cost, fmt::format("cost {} has no counterpart that this converter knows", type));
  }

  static std::string rule_text(const Tree& rule) {
    const std::string type = type_of(rule);
    const std::string decay = fmt::format("weight_decay: {:g}", number(rule, "wdecay", 0));
    const auto eps = [&](double otherwise) { return fmt::format("eps: {:g}", number(rule, "epsilon", otherwise)); };
    if (type == "GradientDescentMomentum")
      return fmt::format("{{sgd: {{momentum: {:g}, {}, nesterov: {}}}}}", number(rule, "momentum_coef", 0.9), decay,
                         text(rule, "nesterov", "false") == "true" || text(rule, "nesterov", "") == "True");
    if (type == "RMSProp")
      return fmt::format("{{rmsprop: {{alpha: {:g}, {}}}}}", number(rule, "decay_rate", 0.95), eps(1e-6));
    if (type == "Adam")
      return fmt::format("{{adam: {{beta1: {:g}, beta2: {:g}, {}}}}}", number(rule, "beta_1", 0.9),
                         number(rule, "beta_2", 0.999), eps(1e-8));
    if (type == "Adagrad") return fmt::format("{{adagrad: {{{}}}}}", eps(1e-6));
    if (type == "Adadelta")
      return fmt::format("{{adadelta: {{rho: {:g}, {}}}}}", number(rule, "decay", 0.95), eps(1e-6));
    refuse(rule, fmt::format("optimizer {} has no counterpart that this converter knows", type));
  }
  static std::string schedule_text(const Tree& rule) {
    const double otherwise = type_of(rule) == "RMSProp"    ? 0.002
                             : type_of(rule) == "Adam"     ? 0.001
                             : type_of(rule) == "Adadelta" ? 1
                                                           : 0.01;
    const std::string rate = fmt::format("rate: {:g}", number(rule, "learning_rate", otherwise));
    const Tree* schedule = option(rule, "schedule");
    const Tree* steps = schedule && !schedule->is_null() ? option(*schedule, "step_config") : nullptr;
    if (!steps || steps->is_null()) return fmt::format("{{constant: {{{}}}}}", rate);
    const Tree* change = option(*schedule, "change");
    if (steps->is_scalar())
      return fmt::format("{{step: {{{}, factor: {}, every: {}}}}}", rate, text(change, "1"), steps->text);
    std::vector<std::string> epochs;
    for (const Tree& step : steps->items) epochs.push_back(step.text);
    if (change && change->is_list()) refuse(*change, "one change for all steps of a schedule is supported");
    return fmt::format("{{multistep: {{{}, factor: {}, milestones: [{}]}}}}", rate, text(change, "1"),
                       fmt::join(epochs, ", "));
  }
  /// The parameters that a name of a MultiOptimizer means: a layer's, or those of all layers of a type.
  std::vector<std::string> patterns(const std::string& name) const {
    std::vector<std::string> found;
    const std::string kind = name == "Linear"        ? "linear"
                             : name == "Convolution" ? "conv2d"
                             : name == "BatchNorm"   ? "batch_norm"
                                                     : "";
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const Line& line = lines_[i];
      const std::string full = line.name.empty() ? std::to_string(i) : line.name;
      const bool has_weights = line.kind == "linear" || line.kind == "conv2d";
      if (name == "Bias" && has_weights && std::ranges::find(line.fields, "bias: false") == line.fields.end())
        found.push_back(full + ".bias");
      if (line.name == name || line.kind == kind) found.push_back(full + (kind == "batch_norm" ? ".*" : ".weight"));
    }
    return found;
  }
  std::string optimizer_text() {
    const Tree* optimizer = tree_.find("optimizer");
    if (!optimizer) refuse(tree_, "has no optimizer");
    if (type_of(*optimizer) != "MultiOptimizer")
      return fmt::format("optimizer: {}\nschedule: {}\n", rule_text(*optimizer), schedule_text(*optimizer));
    const Tree* mapping = option(*optimizer, "optimizer_mapping");
    const Tree& rules = mapping ? *mapping : *optimizer;
    const Tree* standard = rules.find("default");
    if (!standard) refuse(rules, "a MultiOptimizer without default");
    std::string groups;
    for (const Tree::Entry& entry : rules.entries) {
      if (entry.key == "default" || entry.key == "type" || entry.key == "name") continue;
      const std::vector<std::string> found = patterns(entry.key);
      if (found.empty()) notes_.push_back(fmt::format("no layer is {}, whose optimizer is left out", entry.key));
      for (const std::string& pattern : found)
        groups += fmt::format("  - {{match: \"{}\", optimizer: {}, schedule: {}}}\n", pattern, rule_text(entry.value),
                              schedule_text(entry.value));
    }
    return fmt::format("optimizer: {}\nschedule: {}\n{}{}", rule_text(*standard), schedule_text(*standard),
                       groups.empty() ? "" : "parameter_groups:\n", groups);
  }

  std::string data_text() {
    const Tree* dataset = tree_.find("dataset");
    const std::string name = dataset ? text(*dataset, "name", "") : "", batch = text(tree_, "batchsize", "128");
    if (name == "mnist") return fmt::format("data: {{mnist: {{path: mnist, batch: {}, normalize: false}}}}\n", batch);
    if (name == "cifar10") return fmt::format("data: {{cifar10: {{batch: {}, pad: 0, flip: false}}}}\n", batch);
    if (name == "i1k")
      return fmt::format("data: {{image_folder: {{path: images, batch: {}, crop: 224, resize: 256, flip: true}}}}\n",
                         batch);
    refuse(dataset ? *dataset : tree_,
           fmt::format("dataset \"{}\", expected mnist, cifar10 or i1k; change it and then use --data", name));
  }

  const Tree& tree_;
  std::vector<Line> lines_;
  std::vector<std::string> notes_;
};

}  // namespace

std::string neon_config(const std::filesystem::path& file) {
  const Tree tree = load_yaml(file, RepeatedKeys::last_at_root);
  const std::string converted = Converter(tree).convert(file.filename().string());
  parse_config(converted, file.string() + ", converted");
  return converted;
}

}  // namespace nixie
