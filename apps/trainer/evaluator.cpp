// Sums of every batch are added up in double on the host.
#include "nixie/apps/trainer/evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace nixie {
namespace {

void add(std::vector<double>& total, const Tensor& sums) {
  const std::vector<double> values = sums.to_vector<double>();
  total.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) total[i] += values[i];
}

/// Outputs with a value for each sample; the others are sums.
const std::set<std::string> kOfSamples{"labels", "predicted", "scores", "output", "errors"};

std::string output_name(std::size_t metric) { return "metric" + std::to_string(metric); }

void add_predictions(std::int64_t count, const Outputs& outputs, std::vector<Prediction>& all) {
  const auto labels = outputs.at("labels").to_vector<std::int32_t>(),
             predicted = outputs.at("predicted").to_vector<std::int32_t>();
  const auto scores = outputs.at("scores").to_vector<float>();
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) all.push_back({labels[i], predicted[i], scores[i]});
}

/// The mean over all axes but the first.
Tensor sample_means(const Tensor& values) {
  Axes axes;
  for (int axis = 1; axis < values.rank(); ++axis) axes.push_back(axis);
  return mean(cast(values, Dtype::f32), axes, false);
}

/// Keeps the samples with the largest errors; outputs are fetched only where one of the batch is among them.
void add_examples(std::int64_t count, std::int64_t first, const Outputs& outputs, std::vector<Example>& worst) {
  constexpr std::size_t kMostExamples = 12;
  const auto errors = outputs.at("errors").to_vector<float>();
  const auto is_worse = [](const Example& a, const Example& b) { return a.error > b.error; };
  std::optional<Array> output;
  for (std::int64_t i = 0; i < count; ++i) {
    Example example{.index = first + i, .error = errors[static_cast<std::size_t>(i)]};
    if (worst.size() == kMostExamples && !is_worse(example, worst.back())) continue;
    if (!output) output = outputs.at("output").array();
    example.output = row_of(*output, i);
    worst.insert(std::upper_bound(worst.begin(), worst.end(), example, is_worse), std::move(example));
    worst.resize(std::min(worst.size(), kMostExamples));
  }
}

}  // namespace

Confusions confusions_of(const std::vector<Prediction>& predictions) {
  Confusions confusions;
  for (const auto& [label, predicted, score] : predictions) ++confusions[{label, predicted}];
  return confusions;
}

std::vector<std::pair<ClassPair, std::int64_t>> most_confused(const Confusions& confusions, std::size_t most) {
  std::vector<std::pair<ClassPair, std::int64_t>> wrong;
  for (const auto& [pair, count] : confusions)
    if (pair.first != pair.second) wrong.emplace_back(pair, count);
  std::ranges::stable_sort(wrong, std::greater(), [](const auto& each) { return each.second; });
  wrong.resize(std::min(wrong.size(), most));
  return wrong;
}

std::string class_name(const Dataset& data, std::int32_t label) {
  const auto& names = data.class_names();
  return static_cast<std::size_t>(label) < names.size() ? names[static_cast<std::size_t>(label)]
                                                        : std::to_string(label);
}

std::string sample_name(const Dataset& data, std::int64_t index) {
  const std::string place = data.sample_place(index);
  return place.empty() ? fmt::format("sample {}", index) : place;
}

Tensor class_scores(const Tensor& output, const AnyLoss& loss) {
  if (loss.kind() == BinaryCrossEntropy::name) return sigmoid(output);
  for (const char* kind : {CrossEntropy::name, Focal::name, Dice::name, KlDivergence::name})
    if (loss.kind() == kind) return softmax(output, {1});
  return output;
}

Array row_of(const Array& batch, std::int64_t row) {
  const Shape shape = batch.shape();
  Array result(batch.dtype(), Shape({shape.begin() + 1, shape.end()}));
  std::memcpy(result.bytes(), batch.bytes() + row * result.size_bytes(), static_cast<std::size_t>(result.size_bytes()));
  return result;
}

double score_of(const Evaluation& evaluation, const TrainConfig& config) {
  if (config.best_by == "accuracy" && !std::isnan(evaluation.accuracy)) return evaluation.accuracy;
  if (config.best_by == "accuracy" || config.best_by == "loss") return -evaluation.loss;
  const auto found = std::ranges::find(evaluation.metrics, config.best_by, [](const auto& each) { return each.first; });
  const AnyMetric& metric = config.metrics[static_cast<std::size_t>(found - evaluation.metrics.begin())];
  return metric.is_error() ? -found->second : found->second;
}

std::string to_string(const Evaluation& evaluation, const std::string& split) {
  const std::string accuracy =
      std::isnan(evaluation.accuracy) ? "" : fmt::format(" accuracy {:.4f}", evaluation.accuracy);
  return fmt::format("{}{} loss {:.4f} ({} samples)", split, accuracy, evaluation.loss, evaluation.samples);
}

Evaluator::Evaluator(Backend& backend, const Model& model, const TrainConfig& config,
                     std::shared_ptr<const Dataset> dataset, const LoaderOptions& options, std::string part,
                     const World& world)
    : backend_(backend),
      precision_(config.policy()),
      model_(model),
      part_(std::move(part)),
      world_(world),
      shards_(config, world),
      batch_(options.batch),
      places_(config.places),
      objective_(config, dataset->target()),
      has_accuracy_(objective_.accuracy().has_value()),
      loader_(std::move(dataset), options, 0, false, world),
      step_(
          backend, [this](const Inputs& in) { return of_batch(in); }, precision_) {
  if (has_accuracy_) metrics_.push_back(*objective_.accuracy());
  metrics_.insert(metrics_.end(), config.metrics.begin(), config.metrics.end());
}

Outputs Evaluator::of_batch(const Inputs& in) const {
  std::map<std::string, std::vector<Tensor>> parts;
  for (std::int64_t shard = 0; shard < shards_.of_rank(); ++shard) {
    std::map<std::string, Tensor> own;
    for (const char* name : {"images", "labels", "weights"}) own.emplace(name, shards_.rows(in[name], shard));
    for (const auto& [name, value] : sums(Inputs(std::move(own)))) parts[name].push_back(shards_.apart(value));
  }
  Outputs outputs;
  for (const auto& [name, of_shards] : parts)
    outputs.emplace(name, kOfSamples.contains(name) ? shards_.samples(of_shards) : shards_.sum(of_shards));
  return outputs;
}

Outputs Evaluator::sums(const Inputs& in, const std::function<void(const Tensor&)>& observe) const {
  Pass pass{.training = false, .observe = observe};
  const Tensor &labels = in["labels"], &of_samples = in["weights"];
  const Tensor pixels = loader_.dataset().pixels(in["images"]),
               output = at_key(places_, "model", [&] { return model_(pixels, pass); });
  const Tensor target = objective_.target(output, pixels, labels);
  const Tensor loss = at_key(places_, "loss", [&] { return objective_.loss()(output, target, of_samples); });
  const Tensor weights = objective_.weights(target, of_samples),
               counted = sum(objective_.loss_weights(target, of_samples));
  // Where nothing counts, the loss is a sum: of what label smoothing gives.
  Outputs outputs{{"loss", loss * where(counted > 0, counted, 1)}, {"counted", counted}};
  if (objective_.names_classes()) {
    outputs.emplace("labels", labels);
    outputs.emplace("predicted", argmax(output, {1}, false));
    outputs.emplace("scores", max(class_scores(output, objective_.loss()), {1}, false));
  } else if (objective_.names_pixels()) {
    const Tensor classes = argmax(output, {1}, false);
    outputs.emplace("output", classes);
    const Tensor wrong = classes != target, counts = objective_.weights(target);
    outputs.emplace("errors", sample_means(counts.has_value() ? logical_and(wrong, counts) : wrong));
  } else {
    const Tensor numbers = cast(class_scores(output, objective_.loss()), Dtype::f32);
    outputs.emplace("output", numbers);
    outputs.emplace("errors", sample_means(abs(numbers - target)));
  }
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    const std::string key = "metrics." + std::to_string(i - (has_accuracy_ && i > 0 ? 1 : 0));
    outputs.emplace(output_name(i), at_key(places_, key, [&] { return metrics_[i].sums(output, target, weights); }));
  }
  return outputs;
}

std::map<std::string, Tensor> Evaluator::placeholders() const {
  std::map<std::string, Tensor> inputs = batch_placeholders(loader_.dataset(), world_.share_of(batch_, "batch"));
  inputs.emplace("weights", placeholder({world_.share_of(batch_, "batch")}));
  return inputs;
}

std::optional<Evaluation> Evaluator::run(const std::function<bool()>& stop) {
  Evaluation result;
  std::vector<std::vector<double>> totals(metrics_.size());
  loader_.start({});
  double counted = 0;  // samples, or positions of them
  for (std::int64_t done = 0; const Batch* batch = loader_.next();) {
    const std::map<std::string, Tensor> inputs = {
        {"images", batch->images}, {"labels", batch->labels}, {"weights", batch->weights}};
    const Outputs outputs = step_(inputs);
    const double loss = outputs.at("loss").item();
    if (!std::isfinite(loss) && std::isfinite(result.loss))
      result.non_finite =
          first_non_finite(backend_, precision_, *batch, part_, inputs,
                           [&](const Inputs& in, const auto& observe) { return sums(in, observe).at("loss"); });
    result.loss += loss;
    counted += outputs.at("counted").item();
    const std::int64_t count = std::min(batch_, loader_.samples() - result.samples);
    if (objective_.names_classes())
      add_predictions(count, outputs, result.predictions);
    else
      add_examples(count, result.samples, outputs, result.worst);
    for (std::size_t i = 0; i < metrics_.size(); ++i) add(totals[i], outputs.at(output_name(i)));
    result.samples += count;
    if (++done < loader_.batches() && stop && stop()) return std::nullopt;
  }
  if (counted == 0 && !objective_.loss().class_weights().empty())
    fail(Fault::data, "the weights of the classes of all labels of the ", result.samples, " samples of ", part_,
         " are 0; mend the labels, or change class_weights");
  if (counted == 0)
    fail(Fault::data, "the loss ignores every label of the ", result.samples, " samples of ", part_, " (ignore_index ",
         objective_.loss().ignored_label().value_or(0), "); mend the labels, or change ignore_index");
  result.loss /= counted;
  if (std::isnan(result.loss)) result.loss = NAN;  // without the sign that a division may leave
  result.accuracy = has_accuracy_ ? metrics_[0].value(totals[0]) : NAN;
  const std::size_t first = has_accuracy_ ? 1 : 0;
  const std::vector<std::string> names =
      metric_names({metrics_.begin() + static_cast<std::ptrdiff_t>(first), metrics_.end()});
  for (std::size_t i = first; i < metrics_.size(); ++i)
    result.metrics.emplace_back(names[i - first], metrics_[i].value(totals[i]));
  return result;
}

}  // namespace nixie
