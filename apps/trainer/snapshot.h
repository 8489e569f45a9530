// Snapshot: everything a run needs to go on exactly, to and from a Checkpoint.
#pragma once

#include "nixie/configs/parse/config.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {

/// What of a run is neither in the model nor in the optimizer. Where the loader stands follows from the step.
struct RunState {
  std::int64_t step = 0;      ///< steps done
  std::int64_t logged = 0;    ///< the step of the last log row
  double loss_sum = 0;        ///< of the steps since then
  double accuracy_sum = 0;    ///< the same
  double best_accuracy = -1;  ///< of the evaluations so far; -1: none
  std::int64_t steps_per_epoch = 0;
};

Checkpoint take_snapshot(const TrainConfig& config, const Model& model, const Optimizer& optimizer,
                         const RunState& state, const Dataset& dataset);

/// Loads a checkpoint of this model. Throws Fault::checkpoint.
Checkpoint load_snapshot(const std::filesystem::path& file, const Model& model);

/// Sets the model and the optimizer, and gives the rest. Throws Fault::checkpoint, before anything is changed, where
/// the checkpoint has another optimizer, seed or number of steps per epoch than the run.
RunState restore_snapshot(const Checkpoint& checkpoint, const TrainConfig& config, const Model& model,
                          const Optimizer& optimizer, std::int64_t steps_per_epoch);

/// Loads the first of these files that is there and valid; `note` is told about the damaged ones. Nothing where none
/// is there; throws Fault::checkpoint where all that are there are damaged.
std::optional<Checkpoint> load_first(const std::vector<std::filesystem::path>& files, const Model& model,
                                     const std::function<void(const std::string&)>& note);

}  // namespace nixie
