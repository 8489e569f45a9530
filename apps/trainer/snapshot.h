// Snapshot: the trainer's state in a Checkpoint: writes and restores it.
#pragma once

#include <algorithm>

#include "nixie/apps/trainer/record/run_state.h"
#include "nixie/configs/parse/config.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {

/// `values` are values_of the data, as they were when the run began.
Checkpoint take_snapshot(const TrainConfig& config, const Model& model, const Optimizer& optimizer,
                         const RunState& state, const Splits& data, const Checkpoint::Values& values);

/// What a checkpoint says of its program, its configuration and the samples that its model takes.
void describe(const TrainConfig& config, const Preparation& preparation, const std::vector<std::string>& class_names,
              Checkpoint& checkpoint);

/// Throws a usage Error where checkpoints cannot hold the run's texts; else the first one would end the run.
void check_texts(const TrainConfig& config, const Dataset& data);

/// The parts of a run that a checkpoint restores.
struct SnapshotTarget {
  const TrainConfig& config;
  const Model& model;
  const Optimizer& optimizer;
  const Splits& data;
  std::int64_t steps_per_epoch;
  /// The parts of the configuration (`model`, `data`, `optimizer`) that may differ from the checkpoint's.
  std::vector<std::string> changes;
  /// Receives each difference.
  std::function<void(const std::string&)> note;

  bool may_change(const std::string& key) const { return std::ranges::find(changes, key) != changes.end(); }
};

/// The configuration that a checkpoint holds, as a tree and read; its mistakes are the file's: Fault::checkpoint.
Tree saved_tree(const Checkpoint& checkpoint, const std::filesystem::path& file);
TrainConfig saved_config(const Checkpoint& checkpoint, const std::filesystem::path& file);

/// The configuration `file` of a run's folder with `assignments`, where what a resumed run keeps is that of the first
/// of the checkpoints that can be read: the run may have been killed between writing the file and the checkpoint.
/// `note` receives such differences.
TrainConfig as_saved(const FilePlace& file, const std::vector<FilePlace>& checkpoints,
                     const std::vector<std::string>& assignments, const std::function<void(const std::string&)>& note);

/// The checkpoint's configuration. Nothing where it has none, or the program brought data, layers ... of its own, which
/// no text names. Throws Fault::checkpoint.
std::optional<TrainConfig> config_of(const std::filesystem::path& file, const Checkpoint& header,
                                     const SnapshotTarget& target);

/// Loads a checkpoint for the target. Refuses, before any array is read, one of another model, dataset or optimizer (a
/// usage Error with the differences, unless they are among its `changes`), seed or number of steps per epoch
/// (Fault::checkpoint), and one whose arrays are not those of the target.
Checkpoint load_snapshot(const FilePlace& file, const SnapshotTarget& target);

/// The numbers of a run, with no best score where this run measures what is best in another way.
RunState state_in(const Checkpoint& checkpoint, const SnapshotTarget& target);
/// Sets the model and the optimizer, and gives the rest.
RunState restore_snapshot(const Checkpoint& checkpoint, const SnapshotTarget& target);

struct LoadedFile {
  FilePlace file;
  Checkpoint checkpoint;
};
/// Loads the first of these files that is there and valid; `note` receives the damaged ones. Nothing where none
/// is there; throws Fault::checkpoint where all that are there are damaged.
std::optional<LoadedFile> load_first(const std::vector<FilePlace>& files, const SnapshotTarget& target);

}  // namespace nixie
