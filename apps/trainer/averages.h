// Averages: an exponential moving average of a model's parameters, for evaluations and predictions.
#pragma once

#include "nixie/models/io/weights.h"
#include "nixie/models/model.h"

namespace nixie {

class Averages {
 public:
  /// `average` is built from the same net and begins with the model's values. `decay` is the share that a step keeps.
  Averages(const Model& model, const Model& average, double decay);

  /// In a training step's body, after the update: average = d average + (1 - d) parameter, with d = min(decay, (1 + n)
  /// / (10 + n)) after n steps, so that the first values do not stay for long; buffers are copied.
  void update(const Tensor& step) const;
  /// The average becomes the model as it is now.
  void restart() const;

  const Model& model() const { return average_; }
  NamedArrays arrays() const;
  /// Sets all averages. Throws Fault::checkpoint where the arrays are not all there.
  void set(const NamedArrays& arrays) const;

 private:
  Model average_;
  std::vector<std::pair<Variable, Variable>> pairs_;  // of the model and of the average
  double decay_;
};

}  // namespace nixie
