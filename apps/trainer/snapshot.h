// Snapshot: the trainer's state in a Checkpoint: writes and restores it.
#pragma once

#include <cmath>

#include "nixie/configs/parse/config.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {

/// Times that a run goes back to a checkpoint (`non_finite: roll_back`) before it ends.
inline constexpr std::int64_t kMostRollBacks = 5;

/// What of a run is neither in the model nor in the optimizer. The loader's position is
/// not stored: it is computed from the step.
struct RunState {
  std::int64_t step = 0;       ///< steps done
  std::int64_t logged = 0;     ///< the step of the last log row
  double loss_sum = 0;         ///< of the steps since that row
  double accuracy_sum = 0;     ///< the same
  double best_score = -1e300;  ///< of the evaluations so far: a larger one is better
  std::int64_t evaluations_since_best = 0;
  std::int64_t skipped = 0;    ///< steps since the last log row that changed nothing
  std::int64_t evaluated = 0;  ///< the step of the last evaluation
  std::int64_t steps_per_epoch = 0;
  std::int64_t metrics_bytes = -1;  ///< the size of metrics.csv; -1: not known
  std::int64_t roll_backs = 0;      ///< times the run went back to a checkpoint

  /// What the schedule's rate is multiplied by.
  double rate_factor() const { return std::ldexp(1.0, -static_cast<int>(roll_backs)); }
};

Checkpoint take_snapshot(const TrainConfig& config, const Model& model, const Optimizer& optimizer,
                         const RunState& state, const Splits& data);

/// What a checkpoint is resumed by.
struct SnapshotTarget {
  const TrainConfig& config;
  const Model& model;
  const Optimizer& optimizer;
  const Splits& data;
  std::int64_t steps_per_epoch;
  /// The parts of the configuration (`model`, `data`, `optimizer`) that may differ from the checkpoint's.
  std::vector<std::string> changes;
  /// Is told what differs.
  std::function<void(const std::string&)> note;
};

/// Loads a checkpoint for the target. Refuses, before any array is read, one of another model, dataset or optimizer (a
/// usage Error with the differences, unless they are among its `changes`), seed or number of steps per epoch
/// (Fault::checkpoint), and one whose arrays are not those of the target.
Checkpoint load_snapshot(const std::filesystem::path& file, const SnapshotTarget& target);

/// Sets the model and the optimizer, and gives the rest.
RunState restore_snapshot(const Checkpoint& checkpoint, const SnapshotTarget& target);

/// Loads the first of these files that is there and valid; `note` is told about the damaged ones. Nothing where none
/// is there; throws Fault::checkpoint where all that are there are damaged.
std::optional<Checkpoint> load_first(const std::vector<std::filesystem::path>& files, const SnapshotTarget& target);

}  // namespace nixie
