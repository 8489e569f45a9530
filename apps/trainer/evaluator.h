// Evaluator: a model's loss, accuracy and further metrics on a whole dataset.
#pragma once

#include <map>

#include "nixie/apps/trainer/non_finite.h"
#include "nixie/apps/trainer/objective.h"
#include "nixie/apps/trainer/ranks/shards.h"
#include "nixie/core/step.h"
#include "nixie/data/loader.h"
#include "nixie/layers/registry.h"
#include "nixie/models/model.h"

namespace nixie {

/// The class of a sample and the model's prediction.
struct Prediction {
  std::int32_t label = 0, predicted = 0;
  float score = 0;  ///< of the predicted class
};

/// A sample whose target is no single class, and what the model makes of it.
struct Example {
  std::int64_t index = 0;
  double error = 0;   ///< of masks the share of wrong pixels, of numbers the mean absolute error
  Array output = {};  ///< i32 classes of the pixels [H, W], else f32 numbers, as class_scores gives them
};

struct Evaluation {
  double loss = 0;
  double accuracy = 0;  ///< NaN where there is none
  std::int64_t samples = 0;
  std::vector<std::pair<std::string, double>> metrics = {};  ///< the further ones by name
  /// Predictions of all samples, in the dataset's order; none where a sample has no single class.
  std::vector<Prediction> predictions = {};
  std::vector<Example> worst = {};  ///< of the other samples those with the largest errors, largest first
  NonFinite non_finite = {};        ///< where the loss is not finite: what first is so
};

/// How often samples of a class (first) are taken for each (second).
using ClassPair = std::pair<std::int32_t, std::int32_t>;
using Confusions = std::map<ClassPair, std::int64_t>;
Confusions confusions_of(const std::vector<Prediction>& predictions);
/// Those of two different classes, the most frequent first, at most so many.
std::vector<std::pair<ClassPair, std::int64_t>> most_confused(const Confusions& confusions, std::size_t most);
/// A model may have more outputs than the data has classes.
std::string class_name(const Dataset& data, std::int32_t label);

/// Its place in the data, or `sample 7` where none is known.
std::string sample_name(const Dataset& data, std::int64_t index);

/// Outputs [N, K] as people read them: probabilities where the loss makes them so, else the outputs themselves.
Tensor class_scores(const Tensor& output, const AnyLoss& loss);

/// A sample of a batch of outputs.
Array row_of(const Array& batch, std::int64_t row);

/// `test accuracy 0.9912 loss 0.0271 (10000 samples)`; another word for `test`
std::string to_string(const Evaluation& evaluation, const std::string& split = "test");

/// By what the configuration calls best (`best_by`): larger is better.
double score_of(const Evaluation& evaluation, const TrainConfig& config);

class Evaluator {
 public:
  /// It takes loss, target, metrics and precision from the configuration. `part` names this part of the data. The ranks
  /// of `world` share each batch, and all of them get the same result.
  Evaluator(Backend& backend, const Model& model, const TrainConfig& config, std::shared_ptr<const Dataset> dataset,
            const LoaderOptions& options, std::string part, const World& world = {});

  /// Traces it for a batch's shapes, which finds what does not go together. Nothing is run.
  void trace() { step_.graph(placeholders()); }
  /// Takes memory for the model's values.
  void store_variables() { step_.store_variables(placeholders()); }
  /// Runs the model in evaluation over every sample once; padding weighs nothing. Nothing where `stop` was true after
  /// a batch that is not the last.
  std::optional<Evaluation> run(const std::function<bool()>& stop = {});

 private:
  /// The whole batch: sums over all shards, and all samples' results.
  Outputs of_batch(const Inputs& in) const;
  /// A part of it; `observe` as in Pass.
  Outputs sums(const Inputs& in, const std::function<void(const Tensor&)>& observe = {}) const;
  std::map<std::string, Tensor> placeholders() const;

  Backend& backend_;
  PrecisionPolicy precision_;
  Model model_;
  std::string part_;
  World world_;
  Shards shards_;
  std::int64_t batch_;  // of all ranks
  Places places_;
  Objective objective_;
  bool has_accuracy_;
  std::vector<AnyMetric> metrics_;  // accuracy first, where there is one
  Loader loader_;
  Step step_;
};

}  // namespace nixie
