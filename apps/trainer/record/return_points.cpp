// A state that was saved by the schedule ends a return: the run may go back to it again.
#include "nixie/apps/trainer/record/return_points.h"

#include <algorithm>
#include <iterator>

#include "nixie/apps/trainer/record/run_folder.h"

namespace nixie {

bool follows(const RunState& now, const RunState& earlier) {
  return std::ranges::mismatch(now.returns, earlier.returns).in2 == earlier.returns.end();
}

bool comes_from(const RunState& now, const RunState& earlier) {
  return follows(now, earlier) && std::all_of(now.returns.begin() + std::ssize(earlier.returns), now.returns.end(),
                                              [&](std::int64_t to) { return earlier.step <= to; });
}

std::int64_t return_limit(const RunState& state) {
  return state.went_back_to < 0 ? state.step + 1 : std::min(state.step + 1, state.went_back_to);
}

std::int64_t search_limit(const RunState& state, std::int64_t step) {
  return state.went_back_to < 0 ? step : std::min(step, state.went_back_to + 1);
}

void count_return(RunState& state) {
  state.returns.push_back(state.step);
  state.went_back_to = state.step;
}

bool is_kept_key(const std::string& key) { return key == "model" || key == "data" || key == "optimizer"; }

bool Origin::owes_config() const { return !has_saved() && std::ranges::any_of(changes, is_kept_key); }

// Until it has saved something, other checkpoints in its folder are of another run, unless it was resumed there.
std::vector<FilePlace> Origin::candidates(const Folder* run) const {
  const bool begins_with_file = file && !has_saved();
  std::vector<FilePlace> files;
  if (begins_with_file) files.push_back(*file);
  if (run && (!begins_with_file || is_same_file(*file, {*run, file->name()})))
    std::ranges::move(run_checkpoints(*run), std::back_inserter(files));
  return files;
}

// A run that goes on from an earlier checkpoint cuts the rows after it, which a later last.h5 counts. That comes first.
Replacements Origin::changes_of_checkpoints(const Folder& run) const {
  const FilePlace at(run, "last.h5");
  Replacements made;
  if (last && last->is_scheduled) made.remove({run, kScheduledCheckpoint});  // of a process that was killed in a save
  if (!last && file && std::filesystem::exists(at.status())) made.link(*file, at);
  return made;
}

}  // namespace nixie
