// The files of a Trainer besides its log: first weights, the report, and checkpoints, written in the background.
#include <algorithm>
#include <cmath>

#include "nixie/apps/trainer/profile/profile.h"
#include "nixie/apps/trainer/report/gradient_probe.h"
#include "nixie/apps/trainer/report/memory_text.h"
#include "nixie/apps/trainer/report/report.h"
#include "nixie/apps/trainer/trainer.h"
#include "nixie/models/io/checkpoint_state.h"
#include "nixie/models/io/durable_file.h"
#include "nixie/models/io/weights.h"

namespace nixie {
namespace {

constexpr std::int64_t kBytesOfHdf5 = 17 << 20;

/// Refuses first weights that a checkpoint's take the place of.
void check_resumes(const TrainConfig& config, const std::vector<std::string>& changes) {
  const bool is_named = std::ranges::find(changes, "init_from") != changes.end();
  check(!is_named || config.init_from.empty(), "init_from is ", config.init_from,
        ", but a resumed run goes on with its checkpoint's weights; take --set init_from out, or start a new run");
}

}  // namespace

void Trainer::initialize() {
  std::vector<std::string> skipped;
  const NamedArrays weights = first_weights(config_.init_from, &skipped);
  WeightReport report = set_weights(model_.parameters(), weights, config_.init_from);
  report.skipped = std::move(skipped);
  if (report.taken.empty())
    fail(Fault::checkpoint, config_.init_from, ": no array has the name and shape of one of the model's; it has ",
         report.unused.empty() ? "none" : report.unused[0], ", the model ", model_.parameters().all()[0].name());
  if (averages_) averages_->restart();
  progress_.line("init_from " + config_.init_from + ": " + to_string(report));
}

void Trainer::use_folder(const Folder& run) {
  check_idle("use_folder");
  saver_.wait();  // it may still write to the folder before
  lock_.emplace(run);
  check_run_files(run);
  options_.run = run.path();
  lacks_last_ = true;
  has_scheduled_last_ = false;
}

SnapshotTarget Trainer::target(const std::vector<std::string>& changes) {
  return {config_, model_, optimizer_, data_, steps_per_epoch_, changes, [this](const std::string& note) {
            progress_.line(note);
          }};
}

void Trainer::check_idle(const char* call) const {
  check(!is_training_, "trainer: ", call,
        "() is called while the same Trainer trains, as from a callback; call it after ", "train() has returned");
}

void Trainer::resume(const FilePlace& file, const std::vector<std::string>& changes) {
  check_idle("resume");
  check_resumes(config_, changes);
  const SnapshotTarget mine = target(changes);
  go_on_from({file, load_snapshot(file, mine)}, mine);
  note_saved(file.path().string());
}

void Trainer::resume_last(const std::vector<std::string>& changes) {
  check_idle("resume_last");
  const SnapshotTarget mine = target(changes);
  std::optional<LoadedFile> loaded = load_first(checkpoints(), mine);
  if (!loaded) {
    is_resumed_ = true;
    if (!config_.init_from.empty() && !options_.reads_init_from) initialize();
    return progress_.line("the run's folder holds no checkpoint; the run begins again");
  }
  check_resumes(config_, changes);
  go_on_from(*std::move(loaded), mine);
  note_saved(options_.run.string());
}

void Trainer::go_on_from(LoadedFile loaded, const SnapshotTarget& target) {
  const bool may_go_back_to =
      run_state_of(loaded.checkpoint.state).went_back_to < 0 && !is_extra(loaded.file, loaded.checkpoint, target);
  restore(loaded.checkpoint, target);
  loaded.checkpoint = {};  // its memory is for the best one
  is_resumed_ = true;
  past_ = state_.went_back_to < 0 ? kNever : state_.went_back_to;
  good_ = {loaded.file};
  begins_with_ = loaded.file;
  if (is_of_run(loaded.file)) {
    good_ = checkpoints();
    good_.insert(good_.begin(), loaded.file);
    lacks_last_ = !is_same_file(loaded.file, place("last.h5"));
    has_scheduled_last_ = !lacks_last_ && may_go_back_to;
  }
  changes_ = target.changes;
  progress_.line(fmt::format("resumed after step {}", state_.step));
  check_best();
}

void Trainer::check_best() {
  if (!writes() || state_.best_score == RunState{}.best_score) return;
  const FilePlace best = place("best.h5");
  std::string fault = best.path().string() + " is missing";
  if (std::filesystem::exists(best.status())) try {
      load_checkpoint(best, {.model = forms_of(model_)});
      return;
    } catch (const Error& error) {
      if (error.fault() != Fault::checkpoint) throw;
      const std::string line = error.what();
      fault = line.substr(0, line.rfind("; "));  // another checkpoint is no remedy
    }
  lacks_best_ = true;
  progress_.line(fault + "; the next evaluation writes it anew");
}

std::vector<FilePlace> Trainer::checkpoints() const {
  return writes() ? run_checkpoints(lock_->folder()) : std::vector<FilePlace>{};
}

bool Trainer::is_of_run(const FilePlace& file) const { return writes() && is_same_file(file, place(file.name())); }

void Trainer::restore(const Checkpoint& checkpoint, const SnapshotTarget& target) {
  if (averages_) averages_->set(checkpoint.ema);  // before anything else: it may be refused
  state_ = restore_snapshot(checkpoint, target);
  if (!rolls_back()) state_.returns.clear(), state_.went_back_to = -1;  // nobody would heed them
  train_step_.set(state_);
  evaluation_.reset();
}

// A run that goes on from an earlier checkpoint cuts the rows after it, which a later last.h5 counts. That comes first.
Replacements Trainer::going_back() const {
  const FilePlace last = place("last.h5");
  Replacements changes;
  if (has_scheduled_last_) changes.remove(place(kScheduledCheckpoint));  // of a process that was killed while it saved
  if (lacks_last_ && begins_with_ && std::filesystem::exists(last.status())) changes.link(*begins_with_, last);
  return changes;
}

// As it is: another save would be of a configuration that no step was made under.
void Trainer::keep_last() {
  if (!writes() || config_.keep == 0) return;
  if (lacks_last_) return save({"last.h5"}, config_.keep);
  keep_checkpoint(place("last.h5"), state_.step, config_.keep);
}

void Trainer::open_record() {
  if (!writes()) return progress_.log().close();
  saver_.wait();  // where an error ended `train`, it may still use the record
  const bool is_new = !record_;
  if (is_new && may_lack_kept() && config_.keep > 0) check_can_keep(lock_->folder(), state_.step, config_.keep);
  Replacements changes = going_back();
  has_config_ = std::none_of(changes_.begin(), changes_.end(), is_kept_key);
  if (has_config_) changes.write(place("config.yaml"), config_text(config_));
  record_.emplace(lock_->folder(), metric_names(config_.metrics), state_.step, state_.metrics_bytes,
                  std::move(changes));  // may refuse the configuration's metrics
  lacks_last_ = lacks_last_ && !(begins_with_ && std::filesystem::exists(place("last.h5").status()));
  progress_.log().open(place("log.txt"));
  agrees_with_table_ = record_->began_with(state_.metrics_bytes, state_.metrics_checksum);
  if (state_.metrics_bytes >= 0 && state_.metrics_bytes != record_->metrics_bytes())
    progress_.line(
        fmt::format("{} has {} bytes up to step {}, but had {} when the checkpoint was written: rows are "
                    "missing or were changed",
                    place("metrics.csv").path().string(), record_->metrics_bytes(), state_.step, state_.metrics_bytes));
  else if (!state_.metrics_checksum.empty() && state_.metrics_checksum != record_->metrics_checksum())
    progress_.line(
        fmt::format("{} has other rows up to step {} than when the checkpoint was written: rows are missing "
                    "or were changed",
                    place("metrics.csv").path().string(), state_.step));
  if (const std::int64_t untimed = record_->untimed(); untimed > 0)
    progress_.line(fmt::format("{} has no rows for {} rows of training in metrics.csv: its rows were lost or removed",
                               place("timing.csv").path().string(), untimed));
  if (const std::int64_t senseless = record_->senseless(); senseless > 0)
    progress_.line(
        fmt::format("{} has {} rows whose seconds are no number from 0 on: later rows go on from the last "
                    "that has",
                    place("timing.csv").path().string(), senseless));
}

void Trainer::log_failure(const std::string& what) {
  try {
    progress_.log().add(what);
  } catch (const Error&) {  // why the run ends is worth more than its line
  }
}

void Trainer::measure_for_report() {
  if (!writes() || !config_.report_detail) return;
  if (layer_times_.empty()) try {
      const MachineRates rates = measure_rates(*backend_, config_.policy());
      layer_times_ = layer_times_text(time_layers(*backend_, config_, model_.batch_shape()), rates);
    } catch (const Error& error) {  // arrays that no batch makes smaller, for a report alone
      if (error.fault() != Fault::memory) throw;
      say(fmt::format("warning: the report has no times of layers (report_detail): {}", error.what()));
    }
  if (!probe_)
    probe_ =
        std::make_unique<GradientProbe>(*backend_, config_, model_, optimizer_, data_.test_or_train(), loader_options_);
}

void Trainer::write_report() {
  if (!writes()) return;
  const Evaluation none{.loss = NAN, .accuracy = NAN};
  write_text(place("report.html"), report_html({.run = lock_->folder(),
                                                .config = config_,
                                                .model = model_,
                                                .test = *data_.test_or_train(),
                                                .evaluation = evaluation_ ? *evaluation_ : none,
                                                .summary = summary() + "\n" + memory_text(*this),
                                                .step = state_.step,
                                                .total_steps = total_steps_,
                                                .layer_times = layer_times_,
                                                .gradients = probe_ ? (*probe_)(24) : std::vector<Histogram>{},
                                                .is_done = state_.step == total_steps_ || is_out_of_patience()}));
}

void Trainer::take_memory() {
  if (std::exchange(has_memory_, true)) return;
  train_step_.store_variables();
  if (evaluator_) evaluator_->store_variables();
  if (!writes()) return;
  saver_.make_thread();
  std::int64_t bytes = 0;
  for (const Parameters& saved :
       {model_.parameters(), optimizer_.state(), averages_ ? averages_->model().parameters() : Parameters{}})
    for (const Variable& value : saved.all()) bytes += value.shape().size() * size_of(value.dtype());
  // A copy of the state, its image as a file, and what HDF5 takes for itself.
  bytes = 2 * bytes + kBytesOfHdf5;
  room_for_save_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  if (!room_for_save_)
    fail(Fault::memory, "no ", bytes >> 20, " MiB of memory for a checkpoint in the making; use a larger machine or a ",
         "smaller model");
}

void Trainer::save(const std::vector<std::string>& files, std::int64_t keep) {
  if (!writes()) return;
  room_for_save_.reset();
  tell(&Callback::save_begins, files);
  saver_.wait();
  check_saved();
  read_sums();
  const bool is_due = is_scheduled(config_, state_), sets_aside = !is_due && has_scheduled_last_ && rolls_back();
  state_.went_back_to = is_due || past_ == kNever ? -1 : past_;
  state_.metrics_bytes = record_->metrics_bytes();
  state_.metrics_checksum = record_->metrics_checksum();
  auto checkpoint =
      std::make_shared<Checkpoint>(take_snapshot(config_, model_, optimizer_, state_, data_, data_values_));
  if (averages_) checkpoint->ema = averages_->arrays();
  const bool writes_config = !std::exchange(has_config_, true);
  saver_.start([this, checkpoint, files, keep, is_due, sets_aside, writes_config, step = state_.step, past = past_] {
    if (std::string array = non_finite_array(*checkpoint); !array.empty()) {
      const std::lock_guard lock(saved_mutex_);
      unsaved_ = {std::move(array), step, past};
      return;
    }
    lock_->renew();  // whoever removed the folder's files may have begun another run there
    record_->sync();
    progress_.log().sync();  // rows that a checkpoint counts are durable before it is
    if (sets_aside) link_durably(place("last.h5"), place(kScheduledCheckpoint));
    if (writes_config) write_text(place("config.yaml"), checkpoint->config);  // before: see as_saved
    for (const std::string& file : files) {
      save_checkpoint(*checkpoint, place(file));
      note_saved(place(file).path().string());
    }
    has_scheduled_last_ = is_due;
    if (is_due) remove_file(place(kScheduledCheckpoint));
    if (keep > 0) keep_checkpoint(place("last.h5"), step, keep);
  });
  good_ = checkpoints();
  lacks_last_ = false;
  if (is_due) past_ = kNever;
}

// The rows behind this step are cut next. A last.h5 that counts them is set aside, so that a resume begins here.
void Trainer::save_where_it_went_back() {
  if (!writes() || last_step() <= state_.step) return;
  room_for_save_.reset();
  state_.went_back_to = past_;
  Checkpoint checkpoint = take_snapshot(config_, model_, optimizer_, state_, data_, data_values_);
  if (averages_) checkpoint.ema = averages_->arrays();
  lock_->renew();
  const FilePlace last = place("last.h5"), aside = place(kScheduledCheckpoint);
  if (std::exchange(has_scheduled_last_, false)) link_durably(last, aside), note_saved(aside.path().string());
  if (!std::exchange(has_config_, true)) write_text(place("config.yaml"), checkpoint.config);
  save_checkpoint(checkpoint, last);
}

std::int64_t Trainer::last_step() const try {
  const FilePlace last = place("last.h5");
  if (!std::filesystem::exists(last.status())) return -1;
  return run_state_of(load_checkpoint(last, {.header_only = true}).state).step;
} catch (const Error& error) {
  if (error.fault() != Fault::checkpoint) throw;
  return -1;  // a damaged one counts nothing
}

void Trainer::save_after_failure() try {
  train_step_.forget_parts();
  if (!writes() || is_repeating_ || state_.step == 0) return;
  save({"last.h5"});
  saver_.wait();
  check_saved();
  progress_.line(fmt::format("saved after step {}", state_.step));
} catch (const Error& error) {
  if (error.fault() == Fault::non_finite) throw;  // it came first
}

std::optional<Trainer::Unsaved> Trainer::take_unsaved() {
  const std::lock_guard lock(saved_mutex_);
  return std::exchange(unsaved_, std::nullopt);
}

void Trainer::check_saved() {
  if (const auto unsaved = take_unsaved()) past_ = unsaved->past, fail_non_finite(unsaved->array, unsaved->step);
}

void Trainer::note_saved(const std::string& file) {
  const std::lock_guard lock(saved_mutex_);
  saved_ = file;
}

}  // namespace nixie
