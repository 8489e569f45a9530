// Evaluator: a model's loss, accuracy and further metrics on a whole dataset.
#pragma once

#include "nixie/core/step.h"
#include "nixie/data/loader.h"
#include "nixie/layers/registry.h"
#include "nixie/models/model.h"

namespace nixie {

/// What the model says about a sample.
struct Prediction {
  std::int32_t label = 0, predicted = 0;
  float score = 0;  ///< of the predicted class
};

struct Evaluation {
  double loss = 0, accuracy = 0;
  std::int64_t samples = 0;
  std::vector<std::pair<std::string, double>> metrics = {};  ///< the further ones by name
  std::vector<Prediction> predictions = {};                  ///< of every sample, in the dataset's order
};

/// Outputs [N, K] as people read them: probabilities where the loss makes them so, else the outputs themselves.
Tensor class_scores(const Tensor& output, const AnyLoss& loss);

/// `test accuracy 0.9912 loss 0.0271 (10000 samples)`
std::string to_string(const Evaluation& evaluation);

class Evaluator {
 public:
  Evaluator(Backend& backend, const Model& model, const AnyLoss& loss, const std::vector<AnyMetric>& metrics,
            std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
            PrecisionPolicy precision = PrecisionPolicy::fp32);

  /// Runs the model in evaluation over every sample once; padding weighs nothing. Nothing where `stop` was true after
  /// a batch that is not the last.
  std::optional<Evaluation> run(const std::function<bool()>& stop = {});

 private:
  Outputs sums(const Inputs& in) const;

  Model model_;
  AnyLoss loss_;
  std::vector<AnyMetric> metrics_;  // accuracy first
  Loader loader_;
  Step step_;
};

}  // namespace nixie
