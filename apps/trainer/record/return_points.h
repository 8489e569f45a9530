// Return points: the checkpoints to which a run that fails may go back, by its state and where it comes from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nixie/apps/trainer/record/replacements.h"
#include "nixie/apps/trainer/record/run_state.h"
#include "nixie/configs/parse/config.h"

namespace nixie {

inline bool rolls_back(const TrainConfig& config) { return config.non_finite == "roll_back"; }
/// Whether `earlier`, of this run, was saved before the last returns of `now`.
bool follows(const RunState& now, const RunState& earlier);
/// Whether the run was in the state `earlier`, and did not go back behind it since.
bool comes_from(const RunState& now, const RunState& earlier);
/// A run that fails goes back to a state before this step: to none that it went back to in vain.
std::int64_t return_limit(const RunState& state);
/// The search for what fails in `step` begins with a state before this one: also with the one it went back to.
std::int64_t search_limit(const RunState& state, std::int64_t step);

/// The run is back in this state of an earlier step, with the returns before.
void count_return(RunState& state);

/// Whether a resumed run keeps the checkpoint's part of the configuration (`model`, `data`, `optimizer`), unless a
/// change names it.
bool is_kept_key(const std::string& key);

/// Where a run's state and checkpoints come from, which its folder alone does not tell.
struct Origin {
  /// The state of last.h5: one that the run's own schedule saves; written by this process.
  struct Last {
    bool is_scheduled, is_own;
  };

  bool is_resumed = false;
  std::optional<FilePlace> file = {};     ///< the checkpoint that a resume went on from; none where there was none
  std::vector<std::string> changes = {};  ///< parts of the configuration that may differ from that checkpoint's
  bool lacks_best = false;                ///< best.h5 was lost: the next evaluation writes it, whatever its score
  std::optional<Last> last = {};          ///< nothing where the run neither wrote last.h5 nor went on from it
  std::string saved = {};                 ///< what was saved or read last, for messages

  bool has_saved() const { return last && last->is_own; }
  /// Whether config.yaml is still of the run before a change of model, data or optimizer, which waits for a checkpoint.
  bool owes_config() const;
  /// Where there may be a checkpoint to go back to; `run` is null where nothing is written.
  std::vector<FilePlace> candidates(const Folder* run) const;
  /// What going on from an earlier checkpoint changes in the folder besides the record.
  Replacements changes_of_checkpoints(const Folder& run) const;
};

}  // namespace nixie
