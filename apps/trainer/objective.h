// Objective: the target of a net's output, and whether an accuracy is defined; and whether the parts that a
// configuration names go together, which each by itself cannot tell.
#pragma once

#include <optional>

#include "nixie/configs/parse/config.h"
#include "nixie/data/loader.h"
#include "nixie/layers/metric.h"

namespace nixie {

/// The images and labels of a batch as inputs of a Step: shapes and types alone.
std::map<std::string, Tensor> batch_placeholders(const Dataset& data, std::int64_t batch);

/// How a run loads its data: in its batches, with the targets that its loss takes.
/// Those of the configuration; the ranks of a machine share its cores.
LoaderOptions loader_options(const TrainConfig& config, const World& world = {});

class Objective {
 public:
  Objective(const TrainConfig& config, const SampleTarget& target);

  const AnyLoss& loss() const { return loss_; }
  /// Whether a sample has one class, which the net names.
  bool names_classes() const { return !is_input_ && target_.is_class(); }
  /// Whether every pixel of a sample has a class, which the net names.
  bool names_pixels() const { return !is_input_ && target_.is_dense(); }
  /// The targets of loss and metrics: the batch's own, or its pixels [N, C, H, W] (an autoencoder); numbers come
  /// in the output's shape where they have as many elements.
  Tensor target(const Tensor& output, const Tensor& pixels, const Tensor& labels) const;
  /// The metrics' weights: those of the samples (or none), but 0 for targets that the loss ignores.
  Tensor weights(const Tensor& target, const Tensor& of_samples = {}) const;
  /// The divisor of the loss, target by target: these weights, times those of the targets' classes. A sum of losses
  /// counts targets alike.
  Tensor loss_weights(const Tensor& target, const Tensor& of_samples = {}) const;
  /// The share that is right: of samples or pixels where targets are classes, of labels where they are numbers that the
  /// binary cross entropy is to reach. Nothing otherwise.
  std::optional<AnyMetric> accuracy() const;
  /// The same of one batch, f32; 0 where there is none.
  Tensor accuracy_of(const Tensor& output, const Tensor& target) const;
  /// Throws a usage Error where the loss takes classes and targets are numbers. `input` is the sample's shape.
  void check_loss(const Shape& input) const;
  /// Throws a usage Error where a sample's output (without N) cannot be compared with its target. `input` is the
  /// sample's shape.
  void check_output(const Shape& output, const Shape& input, const Splits& data) const;
  /// The same for the model's auxiliary outputs, whose losses ignore the same label as the run's.
  void check_auxiliary(const Model& model, const Splits& data) const;
  /// A warning where no training label counts, all that do are of one class, which any net learns at once, or the
  /// largest label is far above the others; "" elsewhere.
  std::string label_warning(const Splits& data) const;

 private:
  /// Throws a usage Error where there are fewer outputs than classes.
  void check_classes(std::int64_t outputs, const char* what, const Splits& data) const;

  AnyLoss loss_;
  SampleTarget target_;
  bool is_input_;
  const char* remedy_;  // where the model has too few outputs
};

/// Throws a usage Error at the key of the file where the model's output, the loss and the data's targets do not fit, or
/// something waits for evaluations and there are none.
void check_goes_together(const TrainConfig& config, const Model& model, const Splits& data);

}  // namespace nixie
