// GradientProbe: the gradients of one batch, looked at without a step.
#pragma once

#include "nixie/apps/trainer/objective.h"
#include "nixie/apps/trainer/report/chart.h"
#include "nixie/core/step.h"
#include "nixie/data/loader.h"
#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {

class GradientProbe {
 public:
  /// Takes the first batch of the dataset as evaluation has it. References are kept.
  GradientProbe(Backend& backend, const TrainConfig& config, const Model& model, const Optimizer& optimizer,
                std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);

  /// The gradients of the `most` largest trained parameters, in the net's order; nothing is changed.
  std::vector<Histogram> operator()(std::size_t most);

 private:
  Outputs body(const Inputs& in) const;

  const Model& model_;
  const Optimizer& optimizer_;
  Objective objective_;
  std::uint64_t seed_;
  Loader loader_;
  Step step_;
};

/// The `most` largest of these, in their order.
std::vector<Variable> largest(const std::vector<Variable>& variables, std::size_t most);

}  // namespace nixie
