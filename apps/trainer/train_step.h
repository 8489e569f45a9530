// TrainStep: a training step on one batch, or on several with accumulated gradients.
#pragma once

#include <set>

#include "nixie/apps/trainer/averages.h"
#include "nixie/apps/trainer/mixing.h"
#include "nixie/apps/trainer/non_finite.h"
#include "nixie/apps/trainer/objective.h"
#include "nixie/apps/trainer/ranks/shards.h"
#include "nixie/apps/trainer/snapshot.h"
#include "nixie/core/state/graph.h"
#include "nixie/core/step.h"
#include "nixie/data/loader.h"
#include "nixie/models/statistics.h"

namespace nixie {

/// The sums on the device since the last log row.
struct StepSums {
  double loss = 0, accuracy = 0;
  std::int64_t skipped = 0;           ///< steps that changed nothing
  std::int64_t first_non_finite = 0;  ///< the step of the first loss that is no number; 0: none
  /// Squared norms of gradients, where the noise scale is asked for: the mean of the batches', and that of their mean.
  double batch_norms = 0, step_norms = 0;
};

/// The gradient noise scale (McCandlish et al. 2018), the variance of a sample's gradient over the squared mean
/// gradient, from the norms of gradients over `batch` samples and over `accumulate` times as many. Infinite where the
/// mean gradient is lost in the noise.
double noise_scale(const StepSums& sums, std::int64_t batch, std::int64_t accumulate);

/// `accumulate` batches make a step: the same as one of all their samples, but for what a layer does with a whole batch
/// (batch norm, dropout). References are kept.
class TrainStep {
 public:
  /// `averages` and `statistics` may be null. The ranks of `world` share each batch equally; losses, gradients and
  /// running statistics are the means over all of its samples, so that all that follows from them is the same on each
  /// rank.
  TrainStep(Backend& backend, const TrainConfig& config, const Dataset& data, const Model& model,
            const Optimizer& optimizer, const Averages* averages, Statistics* statistics, const World& world = {});

  /// Runs with the batches that `next` gives; `step` are done before.
  void operator()(const std::function<const Batch&()>& next, std::int64_t step);
  /// Whether one like that after `step` others ran before: the first one compiles.
  bool has_run(std::int64_t step) const { return has_run_.contains(measured_after(step)); }
  /// Takes back what the batches of a step that is not complete changed, where `next` threw.
  void forget_parts();

  StepSums sums() const;
  void clear_sums();
  /// As they were after a step of an earlier process.
  void set(const RunState& state);

  /// Where the forward pass of a batch first makes a value that is not finite. `step` are done before; the batch is the
  /// `part`th of its step. Running statistics change as in training.
  NonFinite first_non_finite(const Batch& batch, std::int64_t step, std::int64_t part);

  /// Traces it for a batch's shapes, which finds what does not go together. Nothing is run.
  void trace();
  /// Plans it for a batch's shapes, as its first run does. Throws Fault::memory.
  void compile();
  /// Takes memory for everything that outlives a step.
  void store_variables();
  /// The part that updates, simplified; and how the backend would run it. Nothing is run.
  const Graph& graph() { return update_after(0).graph(placeholders()); }
  const Plan& plan() { return update_after(0).plan(placeholders()); }

 private:
  struct Result {
    Tensor loss, accuracy;
    std::vector<Gradient> slopes;
    /// Where the batch is a part of a step, and the loss ignores a label or weighs classes: the mean weight of the
    /// batch's labels in the loss; the factor of the loss and its slopes, and that of the accuracy (the share of labels
    /// that are not ignored), by which the step's means are over all of its labels.
    Tensor weight, share, counted;
  };
  /// The result of this rank's share of a batch, with slopes.
  Result run(const Inputs& in) const;
  /// The result of one of its shards.
  Result run_shard(const Inputs& in, std::int64_t shard) const;
  /// Adds the step's earlier batches, then the other ranks' results, and divides the sums.
  void complete(Result& result);
  /// Without slopes; `observe` as in Pass.
  Result forward(const Inputs& in, std::int64_t share, const std::function<void(const Tensor&)>& observe = {}) const;
  /// The squared norm of the gradients of its batch by itself.
  static Tensor norm_of_batch(const Result& result);
  Outputs add_body(const Inputs& in);
  Outputs update_body(const Inputs& in, Measured what);
  /// The part that updates and measures what is due after `step` others. Each kind has a plan of its own, so that a
  /// step that measures nothing costs nothing.
  Step& update_after(std::int64_t step);
  Measured measured_after(std::int64_t step) const;
  /// The next batch is the first of a step.
  void begin_parts();
  void count(const Tensor& now, const Tensor& loss, const Tensor& accuracy);
  std::map<std::string, Tensor> inputs_of(const Batch& batch, std::int64_t draw) const;
  /// As a batch, with shapes and types alone.
  std::map<std::string, Tensor> placeholders() const;
  /// The shards of its batches.
  std::int64_t parts() const { return config_.accumulate * shards_.of_batch(); }
  bool skips() const { return config_.non_finite == "skip"; }

  const TrainConfig& config_;
  const Dataset& data_;
  Objective objective_;
  const Model& model_;
  const Optimizer& optimizer_;
  const Averages* averages_;
  Statistics* statistics_;
  World world_;
  Shards shards_;
  Mixing mixing_;
  Variable step_, loss_sum_, accuracy_sum_, non_finite_, skipped_;
  Variable batch_norms_, step_norms_, part_norms_, rate_factor_;
  Variable part_, part_weight_, part_counted_;          // of a step that is not complete: its batches; sums of Result's
  Variable part_loss_, part_accuracy_;                  // sums over its batches
  std::vector<Variable> part_slopes_;                   // the same, in the optimizer's order of parameters
  std::vector<std::pair<Variable, Variable>> buffers_;  // running statistics, and what they were before the step
  Backend& backend_;
  Step add_;
  std::map<Measured, Step> updates_;
  std::set<Measured> has_run_;
};

}  // namespace nixie
