// A step that gives gradients out; what layers would set in it (running statistics) is dropped.
#include "nixie/apps/trainer/report/gradient_probe.h"

#include <algorithm>

namespace nixie {

GradientProbe::GradientProbe(Backend& backend, const TrainConfig& config, const Model& model,
                             const Optimizer& optimizer, std::shared_ptr<const Dataset> dataset,
                             const LoaderOptions& options)
    : model_(model),
      optimizer_(optimizer),
      objective_(config, dataset->target()),
      seed_(config.seed),
      loader_(std::move(dataset), {.batch = options.batch, .threads = 1, .prefetch = 1}, 0, false),
      step_(
          backend, [this](const Inputs& in) { return body(in); }, config.policy()) {}

Outputs GradientProbe::body(const Inputs& in) const {
  Trace dropped;
  Pass pass{.training = true, .seed = seed_};
  const Tensor pixels = loader_.dataset().pixels(in["images"]);
  const auto loss_of = [&](const AnyLoss& loss, const Tensor& output) {
    return loss(output, objective_.target(output, pixels, in["labels"]), in["weights"]);
  };
  Tensor others = 0;
  pass.auxiliary = [&](const Tensor& output, const AuxiliaryLoss& of) {
    others += of.weight * loss_of(of.loss.value_or(objective_.loss()), output);
  };
  const Tensor output = model_(pixels, pass);
  const Tensor loss = loss_of(objective_.loss(), output) + others;
  Outputs outputs;
  for (const Gradient& gradient : gradients(loss, optimizer_.parameters()))
    outputs.emplace(gradient.parameter.name(), cast(gradient.value, Dtype::f32));
  return outputs;
}

std::vector<Histogram> GradientProbe::operator()(std::size_t most) {
  loader_.start({});
  const Batch& batch = *loader_.next();
  const Outputs outputs = step_({{"images", batch.images}, {"labels", batch.labels}, {"weights", batch.weights}});
  std::vector<Histogram> histograms;
  for (const Variable& variable : largest(optimizer_.parameters(), most))
    histograms.push_back(histogram_of(variable.name(), outputs.at(variable.name()).to_vector<float>()));
  return histograms;
}

std::vector<Variable> largest(const std::vector<Variable>& variables, std::size_t most) {
  std::vector<std::int64_t> sizes;
  for (const Variable& variable : variables) sizes.push_back(-variable.shape().size());
  if (sizes.size() <= most) return variables;
  std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(most), sizes.end());
  const std::int64_t limit = -sizes[most];
  std::vector<Variable> kept;
  for (const Variable& variable : variables)
    if (variable.shape().size() > limit || (variable.shape().size() == limit && kept.size() < most))
      kept.push_back(variable);
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(std::min(kept.size(), most)), kept.end());
  return kept;
}

}  // namespace nixie
