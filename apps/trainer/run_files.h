// RunFiles: what a run has on disk: a locked folder, rows, and checkpoints, which a thread writes while training goes
// on; which of them a run may go on from or back to.
#pragma once

#include "nixie/apps/trainer/record/return_points.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/record/run_record.h"
#include "nixie/apps/trainer/record/saver.h"
#include "nixie/apps/trainer/snapshot.h"

namespace nixie {

class RunLog;

/// Without a folder nothing is written.
class RunFiles {
 public:
  /// A state that was not saved, for an array that is not finite.
  struct Unsaved {
    std::string array;
    std::int64_t step, went_back_to;  ///< of the state before the save
  };
  /// Copies the run's state.
  using Take = std::function<Checkpoint()>;

  /// Both are kept.
  RunFiles(const TrainConfig& config, RunLog& log) : config_(config), log_(log) {}

  /// Locks an existing folder. Throws a usage Error where another trainer has it, Fault::storage.
  void use(const Folder& run);
  bool has_folder() const { return lock_.has_value(); }
  /// Null where there is none.
  const Folder* folder() const { return lock_ ? &lock_->folder() : nullptr; }
  FilePlace place(const std::string& file) const { return {lock_->folder(), file}; }
  /// Throws a usage Error where the folder holds a run that this one does not go on with.
  void check_new() const;

  Origin& origin() { return origin_; }
  const Origin& origin() const { return origin_; }
  /// The run goes on from a checkpoint that the target was restored from; `from` names it in messages.
  void go_on_from(const LoadedFile& loaded, const SnapshotTarget& target, const std::string& from);
  /// Why best.h5 cannot be what a run had with this model: it is missing, damaged or of another; "" where it can.
  std::string fault_of_best(const Model& model) const;

  /// Opens the files behind the rows of the state. Asks for everything that they may refuse before the first is
  /// changed. Returns where tables and state disagree, a line each.
  std::vector<std::string> open(const RunState& state);
  /// Null until `open`, and where there is no folder.
  RunRecord* record() { return record_ ? &*record_ : nullptr; }

  /// Holds memory for the first save of so many bytes of Variables, until free_room. Throws NoThread, Fault::memory.
  void reserve(std::int64_t bytes);
  void free_room() { saver_.free_room(); }
  /// Copies the state; `files` are written from the copy in the background, in order, and last.h5 is kept as step-N.h5
  /// where `keep` is more than 0. Writes nothing of a state that is not finite.
  void save(RunState& state, const std::vector<std::string>& files, std::int64_t keep, const Take& take);
  /// Keeps last.h5, as it is, as that of `step`. False where the run has not written or read it: it is of another.
  bool keep_last(std::int64_t step);
  /// The state is that of an earlier step, and the rows behind it are cut next: a last.h5 that counts them is set
  /// aside, so that a resume begins here.
  void save_return(std::int64_t step, const Take& take);
  /// Waits for the last save, or only asks for it; what it did not write no longer counts as saved in the state.
  std::optional<Unsaved> end_save(RunState& state, void (Saver::*ask)() = &Saver::wait);

  /// Hands the newest checkpoint before step `below` on the course of `now` to `restore`. Passes over damaged ones,
  /// which target.note receives, also those that `restore` refuses, and over checkpoints saved on a signal unless
  /// `any` or the run began with it: stopped and resumed it ends as if it had not been. False where there is none.
  bool restore_good(std::int64_t below, bool any, const RunState& now, const SnapshotTarget& target,
                    const std::function<void(const Checkpoint&, const SnapshotTarget&)>& restore) const;
  /// best.h5 stays the best of all that the run did, also behind the step that it went back to.
  void keep_best_score(RunState& state, const SnapshotTarget& target) const;

 private:
  bool is_of_run(const FilePlace& file) const;
  /// Whether a checkpoint of the run is one that its own configuration did not ask for, and goes back to none such.
  bool is_extra(const FilePlace& file, const Checkpoint& header, const SnapshotTarget& target) const;
  /// The step of last.h5; -1 where there is none that is whole.
  std::int64_t last_step() const;

  const TrainConfig& config_;
  RunLog& log_;
  Origin origin_;
  std::optional<RunLock> lock_;
  std::optional<RunRecord> record_;
  Saver saver_;  // last: it writes the members above until it is destroyed
};

}  // namespace nixie
