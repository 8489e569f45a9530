// TrainedModel: the model of a checkpoint, with everything that predictions need; and Predictor, which runs it.
//
//   TrainedModel trained = load_trained("runs/cats/1/best.h5");
//   Predictor predictor(trained, *make_backend("auto"));
//   for (const Score& score : predictor({prepare_picture("cat.jpg", trained.preparation)})[0]) ...
#pragma once

#include "nixie/configs/parse/config.h"
#include "nixie/core/step.h"
#include "nixie/data/preparation.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/model.h"

namespace nixie {

struct TrainedModel {
  TrainConfig config;  ///< what it was trained with
  Model model;
  Preparation preparation;
  std::vector<std::string> class_names;
  std::int64_t step = 0;  ///< steps done
};

/// Throws Fault::checkpoint where the file is damaged, was not written by a training run, or does not hold its model.
/// `assignments` (key.path=value) change the configuration.
TrainedModel load_trained(const std::filesystem::path& file, const std::vector<std::string>& assignments = {});

/// The model of a configuration with the weights of its `init_from`; preparation and classes are its data's. Throws a
/// usage Error where it names no file, Fault::checkpoint where the file lacks a part of the model.
TrainedModel model_from_weights(const TrainConfig& config);

/// All that load_trained needs and nothing that only training does: no optimizer, one set of weights.
Checkpoint inference_checkpoint(const TrainedModel& trained);

struct Score {
  std::string class_name;  ///< of a number `output 0` ...: checkpoints hold no names of numbers
  double value = 0;  ///< a probability where the loss makes it one, else the output; of a mask the share of its pixels
};

/// Runs a model. Several may share one TrainedModel and its weights, each used by one thread at a time: on the CPU each
/// with a backend of its own, on a GPU all with one.
class Predictor {
 public:
  /// `batch` samples are computed at once.
  Predictor(const TrainedModel& trained, Backend& backend, std::int64_t batch = 1);

  /// Whether the model names the class of each pixel.
  bool is_dense() const;
  /// Whether scores are of classes, which are sorted; numbers stay in their order.
  bool is_ranked() const { return is_ranked_; }
  /// For each prepared sample its scores [K], or of a dense model the class of each pixel [H, W], i32. Throws
  /// Fault::non_finite where what the model gives for a sample is not finite, with the name of the first of these (by
  /// default `sample 3`).
  std::vector<Array> outputs(const std::vector<Array>& samples, const std::vector<std::string>& names = {});
  /// For each prepared sample the scores of all classes, the highest first.
  std::vector<std::vector<Score>> operator()(const std::vector<Array>& samples) { return scores(outputs(samples)); }
  /// The same from what `outputs` returns.
  std::vector<std::vector<Score>> scores(const std::vector<Array>& outputs) const;

 private:
  [[noreturn]] void fail_non_finite(const Array& images, std::int64_t row, const std::string& name) const;

  Backend& backend_;
  PrecisionPolicy precision_;
  Model model_;
  AnyLoss loss_;
  std::vector<std::string> class_names_;
  bool is_ranked_;
  Shape sample_shape_;
  std::int64_t batch_;
  Step step_;
};

}  // namespace nixie
