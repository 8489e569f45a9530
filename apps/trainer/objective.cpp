// Targets of every kind come to the loss through here, in training and evaluation alike.
#include "nixie/apps/trainer/objective.h"

#include <algorithm>

#include "nixie/backends/registry.h"
#include "nixie/core/base/one_line.h"
#include "nixie/data/files/mask_labels.h"

namespace nixie {
namespace {

/// Labels above 1/2 whose output is positive, and the others whose output is not.
struct LabelAccuracy {
  static constexpr const char* name = "accuracy";
  static constexpr auto fields() { return field_list(); }
  Tensor right(const Tensor& output, const Tensor& target) const {
    return cast((output > 0) == (target > 0.5), Dtype::f32);
  }
  Tensor sums(const Tensor& output, const Tensor& target, const Tensor& weights) const {
    const Tensor w = weights.has_value() ? weights : ones({output.shape()[0]});
    return stack({weighted_mean(right(output, target), w) * sum(w), sum(w)});
  }
  double value(const std::vector<double>& sums) const { return sums[1] > 0 ? sums[0] / sums[1] : 0; }
};

/// The warning about a largest class far above the others; else "".
std::string class_apart(const Splits& data) {
  if (data.train->target().is_dense()) return data.train->class_apart();
  const std::int64_t largest = data.train->classes() - 1;
  std::int64_t next = -1, count = 0;
  std::string place;
  for (const Dataset* half : {data.train.get(), data.test.get()}) {
    if (!half) continue;
    const std::vector<std::int32_t> labels = half->labels();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < largest)
        next = std::max<std::int64_t>(next, labels[i]);
      else if (++count == 1)
        place = half->target_place(static_cast<std::int64_t>(i));
    }
  }
  return apart_text(place, count, largest, next);
}

/// Collects labels until two differ.
class FirstLabels {
 public:
  explicit FirstLabels(std::optional<std::int32_t> ignored) : ignored_(ignored) {}

  /// Whether two that count differ.
  bool differ(std::span<const std::int32_t> labels) {
    for (const std::int32_t label : labels) {
      if (label == ignored_) continue;
      if (first_ && label != *first_) return true;
      first_ = label;
    }
    return false;
  }
  std::optional<std::int32_t> first() const { return first_; }

 private:
  std::optional<std::int32_t> ignored_, first_ = {};
};

/// Whether output and targets go together; checked here, since the loss only sees them when the run begins.
void check_objective(const TrainConfig& config, const Model& model, const Splits& data) {
  const SampleTarget target = data.train->target();
  const Objective objective(config, target);
  at_key(config.places, "loss", [&] { objective.check_loss(model.input_shape()); });
  at_key(config.places, config.places.outputs_key(),
         [&] { objective.check_output(model.output_shape(), model.input_shape(), data); });
  if (config.model.layers().adds_loss())
    at_key(config.places, "model", [&] { objective.check_auxiliary(model, data); });
  at_key(config.places, "loss", [&] {
    const std::string kind = config.loss.kind();
    const bool could_ignore = config.loss.text().find("ignore_index: ") != std::string::npos;
    for (const std::int32_t label : data.train->labels_without_class()) {
      const std::string remedy = kind == LossSum::name
                                     ? fmt::format("set ignore_index: {} in each of its losses", label)
                                 : could_ignore ? fmt::format("set loss: {{{}: {{ignore_index: {}}}}}", kind, label)
                                                : "set a loss that may: cross_entropy, focal or dice";
      check(config.target == "input" || config.loss.ignored_label() == label, "the masks hold ", label,
            ", which is no class, but the loss ignores ",
            config.loss.ignored_label() ? std::to_string(*config.loss.ignored_label()) : "none", "; ", remedy,
            ", or number the classes from 0 on");
    }
  });
  at_key(config.places, "mixing", [&] {
    const bool mixes = config.mixing.mixup > 0 || config.mixing.cutmix > 0;
    check(!mixes || (config.target == "labels" && target.shape.rank() <= 1),
          "mixing shares a loss between two labels; these targets are ", to_string(target), "; take mixing out");
  });
  at_key(config.places, "schedule", [&] {
    check(objective.accuracy() || !config.schedule.maximizes(),
          "schedule: the plateau watches the accuracy, but these targets have none; set maximize to false");
  });
}

/// Refuses what waits for evaluations where there are none.
void check_evaluations(const TrainConfig& config, const Splits& data) {
  if (data.test) return;
  constexpr const char* kRemedy = ", but nothing is held out (holdout: 0), so there are none; hold a part out, or ";
  at_key(config.places, "patience",
         [&] { check(config.patience == 0, "patience counts evaluations", kRemedy, "take patience out"); });
  at_key(config.places, "schedule", [&] {
    check(config.schedule.kind() != PlateauRate::name, "the plateau watches evaluations", kRemedy,
          "take another schedule");
  });
}

}  // namespace

std::map<std::string, Tensor> batch_placeholders(const Dataset& data, std::int64_t batch) {
  const auto sizes = [batch](const Shape& sample) {
    std::vector<std::int64_t> all(sample.begin(), sample.end());
    all.insert(all.begin(), batch);
    return Shape(all);
  };
  return {{"images", placeholder(sizes(data.sample_shape()), data.bytes() ? Dtype::u8 : Dtype::f32)},
          {"labels", placeholder(sizes(data.target().shape), data.target().dtype)}};
}

LoaderOptions loader_options(const TrainConfig& config, const World& world) {
  LoaderOptions options = config.loader;
  options.threads = own_threads(options.threads, world);
  options.batch = config.data.batch();
  if (config.target != "input") options.targets = config.loss.target_range();
  return options;
}

Objective::Objective(const TrainConfig& config, const SampleTarget& target)
    : loss_(config.loss),
      target_(target),
      is_input_(config.target == "input"),
      remedy_(config.model.kind() == Sequential::name ? "give the last layer as many outputs"
                                                      : "set the model's classes") {}

Tensor Objective::target(const Tensor& output, const Tensor& pixels, const Tensor& labels) const {
  const Tensor& target = is_input_ ? pixels : labels;
  const bool is_number = is_input_ || target_.dtype == Dtype::f32;
  return is_number && target.shape().size() == output.shape().size() ? reshape(target, output.shape()) : target;
}

Tensor Objective::weights(const Tensor& target, const Tensor& of_samples) const {
  if (!loss_.ignored_label() || is_floating(target.dtype())) return of_samples;
  const Tensor counts = cast(target != *loss_.ignored_label(), Dtype::f32);
  return of_samples.has_value() ? counts * spread_weights(of_samples, counts) : counts;
}

Tensor Objective::loss_weights(const Tensor& target, const Tensor& of_samples) const {
  const Tensor counted = weights(target, of_samples);
  if (loss_.class_weights().empty() || is_floating(target.dtype())) return counted;
  const Tensor of_classes = class_weights_of(target, loss_.class_weights());
  if (!counted.has_value()) return of_classes;
  return of_classes * (counted.rank() > 1 ? counted : spread_weights(counted, of_classes));
}

std::optional<AnyMetric> Objective::accuracy() const {
  if (is_input_) return std::nullopt;
  if (target_.dtype == Dtype::i32) return Accuracy{};
  if (loss_.kind() == BinaryCrossEntropy::name) return LabelAccuracy{};
  return std::nullopt;
}

Tensor Objective::accuracy_of(const Tensor& output, const Tensor& target) const {
  if (is_input_) return Tensor(Array(Dtype::f32, Shape{}));
  if (target_.dtype == Dtype::i32) return nixie::accuracy(output, target, weights(target));
  if (loss_.kind() == BinaryCrossEntropy::name) return mean(LabelAccuracy{}.right(output, target));
  return Tensor(Array(Dtype::f32, Shape{}));
}

void Objective::check_loss(const Shape& input) const {
  const bool takes_classes = loss_.kind() == CrossEntropy::name || loss_.kind() == Focal::name;
  const std::string of_pixels = target_.shape.rank() == 2 && input.rank() == 3
                                    ? fmt::format("those of pixels in the image's size [{}, {}], ", input[1], input[2])
                                    : "";
  check(
      !takes_classes || (!is_input_ && target_.dtype == Dtype::i32), loss_.kind(), " takes classes, the targets are ",
      is_input_ ? "the input; " : to_string(target_) + "; store classes as integers, " + of_pixels + "or for numbers ",
      "set another loss, for example mean_squared");
}

void Objective::check_classes(std::int64_t outputs, const char* what, const Splits& data) const {
  const std::int64_t classes = data.train->classes();
  if (outputs >= classes) return;
  const std::string apart = class_apart(data);
  fail(Fault::usage, "the model has ", outputs, " ", what, ", the data ", classes, " classes; ", apart,
       apart.empty() ? "" : ": correct it, or ", remedy_);
}

void Objective::check_output(const Shape& output, const Shape& input, const Splits& data) const {
  if (is_input_) {
    check(output.size() == input.size(), "the model's output is ", output, " for a sample ", input,
          ", expected as many numbers: target is input");
  } else if (target_.is_class()) {
    check(output.rank() == 1, "the model's output is ", output, " for a sample, expected one number per class");
    check_classes(output[0], "outputs", data);
  } else if (target_.is_dense()) {
    check(output.rank() == 3 && output[1] == target_.shape[0] && output[2] == target_.shape[1],
          "the model's output is ", output, " for a sample, expected [classes, ", target_.shape[0], ", ",
          target_.shape[1], "]: the data has a class for each pixel");
    check_classes(output[0], "outputs for a pixel", data);
  } else {
    check(output.size() == target_.shape.size(), "the model's output is ", output, " for a sample, its target ",
          target_.shape, " numbers; ", remedy_);
  }
}

void Objective::check_auxiliary(const Model& model, const Splits& data) const {
  Trace trace;  // what the layers set is dropped
  Pass pass{.training = true};
  pass.auxiliary = [&](const Tensor& output, const AuxiliaryLoss& of) {
    check_output(Shape(std::vector<std::int64_t>(output.shape().begin() + 1, output.shape().end())),
                 model.input_shape(), data);
    check(!of.loss || of.loss->ignored_label() == loss_.ignored_label(),
          "its loss and the run's ignore different labels; give both the same ignore_index");
  };
  model(placeholder(model.batch_shape()), pass);
}

std::string Objective::label_warning(const Splits& data) const {
  const Dataset& train = *data.train;
  FirstLabels counted(loss_.ignored_label());
  const std::string apart = names_classes() || names_pixels() ? class_apart(data) : "";
  if (!apart.empty()) return one_line("warning: " + apart + "; correct it, unless those between have no samples");
  if (names_classes()) {
    const std::vector<std::int32_t> labels = train.labels();
    if (labels.empty() || counted.differ(labels)) return "";
  } else if (names_pixels()) {
    const TargetReader read(train);
    std::vector<std::int32_t> labels(static_cast<std::size_t>(target_.shape.size()));
    for (std::int64_t i = 0; i < train.size(); ++i) {  // the first masks show it, where there is more than one class
      read(i, {}, 0, std::as_writable_bytes(std::span(labels)));
      if (counted.differ(labels)) return "";
    }
  } else {
    return "";
  }
  constexpr const char* kAdvice = "check the data's labels and its limit";
  if (!counted.first())
    return fmt::format(
        "warning: the loss ignores the labels of all {} training samples, so there is nothing to learn; {}",
        train.size(), kAdvice);
  return one_line(
      fmt::format("warning: all {}{} training samples are of one class, {}, so there is nothing to tell apart; {}",
                  names_pixels() ? "pixels of the " : "", train.size(),
                  field_text(train.class_names()[static_cast<std::size_t>(*counted.first())]), kAdvice));
}

void check_goes_together(const TrainConfig& config, const Model& model, const Splits& data) {
  check_objective(config, model, data);
  check_evaluations(config, data);
}

}  // namespace nixie
