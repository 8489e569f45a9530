// Rows that a checkpoint counts are durable before the checkpoint is; a file takes its place once it is whole.
#include "nixie/apps/trainer/run_files.h"

#include <map>

#include "nixie/apps/trainer/record/due_events.h"
#include "nixie/apps/trainer/record/run_log.h"
#include "nixie/models/io/checkpoint_state.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {
namespace {

constexpr std::int64_t kBytesOfHdf5 = 17 << 20;

}  // namespace

void RunFiles::use(const Folder& run) {
  lock_.emplace(run);
  check_run_files(run);
  origin_.last.reset();
}

void RunFiles::check_new() const {
  if (lock_ && !record_ && !origin_.is_resumed) check_holds_no_run(lock_->folder());
}

bool RunFiles::is_of_run(const FilePlace& file) const { return lock_ && is_same_file(file, place(file.name())); }

bool RunFiles::is_extra(const FilePlace& file, const Checkpoint& header, const SnapshotTarget& target) const {
  if (!is_of_run(file)) return false;
  const TrainConfig own = config_of(file.path(), header, target).value_or(config_);
  return rolls_back(own) && !is_scheduled(own, run_state_of(header.state));
}

void RunFiles::go_on_from(const LoadedFile& loaded, const SnapshotTarget& target, const std::string& from) {
  const bool may_go_back_to =
      run_state_of(loaded.checkpoint.state).went_back_to < 0 && !is_extra(loaded.file, loaded.checkpoint, target);
  origin_ = {.is_resumed = true, .file = loaded.file, .changes = target.changes, .saved = from};
  if (lock_ && is_same_file(loaded.file, place("last.h5")))
    origin_.last = Origin::Last{.is_scheduled = may_go_back_to, .is_own = false};
}

std::string RunFiles::fault_of_best(const Model& model) const {
  const FilePlace best = place("best.h5");
  if (!std::filesystem::exists(best.status())) return best.path().string() + " is missing";
  try {
    load_checkpoint(best, {.model = forms_of(model)});
    return {};
  } catch (const Error& error) {
    if (error.fault() != Fault::checkpoint) throw;
    const std::string line = error.what();
    return line.substr(0, line.rfind("; "));  // another checkpoint is no remedy
  }
}

std::vector<std::string> RunFiles::open(const RunState& state) {
  if (!lock_) return log_.close(), std::vector<std::string>{};
  if (!record_ && may_lack_kept(state) && config_.keep > 0) check_can_keep(lock_->folder(), state.step, config_.keep);
  Replacements changes = origin_.changes_of_checkpoints(lock_->folder());
  if (!origin_.owes_config()) changes.write(place("config.yaml"), config_text(config_));
  record_.emplace(lock_->folder(), metric_names(config_.metrics), state, std::move(changes),
                  config_.statistics.every > 0);  // may refuse the configuration's metrics
  if (!origin_.last && origin_.file && std::filesystem::exists(place("last.h5").status()))
    origin_.last = Origin::Last{.is_scheduled = false, .is_own = false};
  log_.open(place("log.txt"));
  return record_->notes();
}

void RunFiles::reserve(std::int64_t bytes) {
  if (!lock_ || saver_.has_thread()) return;
  saver_.reserve(2 * bytes + kBytesOfHdf5);  // a copy of the state, its image as a file, and what HDF5 takes for itself
}

void RunFiles::save(RunState& state, const std::vector<std::string>& files, std::int64_t keep, const Take& take) {
  const bool is_due = is_scheduled(config_, state), writes_config = origin_.owes_config(),
             sets_aside = !is_due && origin_.last && origin_.last->is_scheduled && rolls_back(config_);
  const std::int64_t went_back_to = state.went_back_to;
  if (is_due) state.went_back_to = -1;
  record_->count(state);
  const auto checkpoint = std::make_shared<const Checkpoint>(take());
  saver_.start([=, this, step = state.step] {
    if (std::string array = non_finite_array(*checkpoint); !array.empty())
      throw Unsaved{std::move(array), step, went_back_to};
    lock_->renew();  // whoever removed the folder's files may have begun another run there
    record_->sync();
    log_.sync();  // rows that a checkpoint counts are durable before it is
    if (sets_aside) link_durably(place("last.h5"), place(kScheduledCheckpoint));
    if (writes_config) write_text(place("config.yaml"), checkpoint->config);  // before: see as_saved
    for (const std::string& file : files) {
      save_checkpoint(*checkpoint, place(file));
      origin_.saved = place(file).path().string();
    }
    origin_.last = Origin::Last{.is_scheduled = is_due, .is_own = true};
    if (is_due) remove_file(place(kScheduledCheckpoint));
    if (keep > 0) keep_checkpoint(place("last.h5"), step, keep);
  });
}

// As it is: another save would be of a configuration that no step was made under.
bool RunFiles::keep_last(std::int64_t step) {
  if (!lock_) return true;
  if (origin_.last) keep_checkpoint(place("last.h5"), step, config_.keep);
  return origin_.last.has_value();
}

void RunFiles::save_return(std::int64_t step, const Take& take) {
  if (!lock_ || last_step() <= step) return;
  saver_.free_room();
  const Checkpoint checkpoint = take();
  lock_->renew();
  const FilePlace last = place("last.h5"), aside = place(kScheduledCheckpoint);
  if (origin_.last && origin_.last->is_scheduled) link_durably(last, aside), origin_.saved = aside.path().string();
  if (origin_.owes_config()) write_text(place("config.yaml"), checkpoint.config);
  save_checkpoint(checkpoint, last);
  origin_.last = Origin::Last{.is_scheduled = false, .is_own = true};
}

std::int64_t RunFiles::last_step() const try {
  const FilePlace last = place("last.h5");
  if (!std::filesystem::exists(last.status())) return -1;
  return run_state_of(load_checkpoint(last, {.header_only = true}).state).step;
} catch (const Error& error) {
  if (error.fault() != Fault::checkpoint) throw;
  return -1;  // a damaged one counts nothing
}

std::optional<RunFiles::Unsaved> RunFiles::end_save(RunState& state, void (Saver::*ask)()) try {
  (saver_.*ask)();
  return std::nullopt;
} catch (const Unsaved& unsaved) {
  state.went_back_to = unsaved.went_back_to;
  return unsaved;
}

bool RunFiles::restore_good(std::int64_t below, bool any, const RunState& now, const SnapshotTarget& target,
                            const std::function<void(const Checkpoint&, const SnapshotTarget&)>& restore) const {
  SnapshotTarget silent = target;
  silent.note = {};
  const auto pass_over = [&](const Error& error) {
    if (error.fault() != Fault::checkpoint) throw;
    target.note(error.what());
  };
  std::multimap<std::int64_t, FilePlace, std::greater<>> newest_first;
  for (const FilePlace& file : origin_.candidates(folder())) try {
      if (!std::filesystem::exists(file.status())) continue;
      const Checkpoint header = load_checkpoint(file, {.header_only = true});
      const RunState state = run_state_of(header.state);
      // A resume from an earlier checkpoint leaves those behind it in the folder: their rows were cut.
      const bool has_rows = !record_ || !is_of_run(file) || record_->began_with(state);
      if (state.step < below && comes_from(now, state) && has_rows && (any || !is_extra(file, header, silent)))
        newest_first.emplace(state.step, file);
    } catch (const Error& error) {
      pass_over(error);
    }
  for (const auto& [step, file] : newest_first) try {
      restore(load_snapshot(file, silent), silent);
      return true;
    } catch (const Error& error) {
      pass_over(error);
    }
  return false;
}

void RunFiles::keep_best_score(RunState& state, const SnapshotTarget& target) const try {
  if (!lock_ || origin_.lacks_best || !std::filesystem::exists(place("best.h5").status())) return;
  SnapshotTarget silent = target;
  silent.note = {};
  const RunState best = state_in(load_checkpoint(place("best.h5"), {.header_only = true}), silent);
  // A run that was killed behind this return may have written one that is still to come.
  if (best.best_score <= state.best_score || !follows(state, best)) return;
  state.best_score = best.best_score;
  target.note(fmt::format("best.h5 stays that of step {}, the best of all that the run did", best.step));
} catch (const Error& error) {
  if (error.fault() != Fault::checkpoint) throw;  // else the next resume tells that it is damaged
}

}  // namespace nixie
