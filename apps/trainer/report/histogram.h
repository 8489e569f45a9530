// Histogram: how numbers are distributed, counted once and drawn small.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nixie/apps/trainer/objective.h"
#include "nixie/core/step.h"
#include "nixie/data/loader.h"
#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {

struct Histogram {
  std::string name = {};
  double low = 0, high = 0;  ///< of the finite values
  double mean = 0, deviation = 0;
  std::int64_t not_finite = 0;
  std::vector<std::int64_t> counts = {};  ///< of equal parts of [low, high]; none where no value is finite
};

Histogram histogram_of(const std::string& name, std::span<const float> values, int bins = 40);

/// A figure of bars with the range below and mean and deviation above it.
std::string histogram_html(const Histogram& histogram);

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
