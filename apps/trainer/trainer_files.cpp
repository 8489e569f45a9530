// The files of a Trainer besides its log: first weights, the report, and checkpoints, written in the background.
#include <algorithm>
#include <cmath>

#include "nixie/apps/trainer/profile/profile.h"
#include "nixie/apps/trainer/record/run_statistics.h"
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
  end_save();  // it may still write to the folder before
  lock_.emplace(run);
  check_run_files(run);
  options_.run = run.path();
  origin_.last.reset();
}

SnapshotTarget Trainer::target(const std::vector<std::string>& changes) {
  return {config_, model_, optimizer_, data_, steps_per_epoch(), changes, [this](const std::string& note) {
            progress_.line(note);
          }};
}

void Trainer::check_idle(const char* call) const {
  check(!session_, "trainer: ", call, "() is called while the same Trainer trains, as from a callback; call it after ",
        "train() has returned");
}

void Trainer::resume(const FilePlace& file, const std::vector<std::string>& changes) {
  check_idle("resume");
  end_save();
  check_resumes(config_, changes);
  const SnapshotTarget mine = target(changes);
  go_on_from({file, load_snapshot(file, mine)}, mine, file.path().string());
}

void Trainer::resume_last(const std::vector<std::string>& changes) {
  check_idle("resume_last");
  end_save();
  const SnapshotTarget mine = target(changes);
  std::optional<LoadedFile> loaded = load_first(Origin().candidates(folder()), mine);
  if (!loaded) {
    origin_.is_resumed = true;
    if (!config_.init_from.empty() && !options_.reads_init_from) initialize();
    return progress_.line("the run's folder holds no checkpoint; the run begins again");
  }
  check_resumes(config_, changes);
  go_on_from(*std::move(loaded), mine, options_.run.string());
}

void Trainer::go_on_from(LoadedFile loaded, const SnapshotTarget& target, const std::string& from) {
  const bool may_go_back_to =
      run_state_of(loaded.checkpoint.state).went_back_to < 0 && !is_extra(loaded.file, loaded.checkpoint, target);
  restore(loaded.checkpoint, target);
  loaded.checkpoint = {};  // its memory is for the best one
  origin_ = {.is_resumed = true, .file = loaded.file, .changes = target.changes, .saved = from};
  if (writes() && is_same_file(loaded.file, place("last.h5")))
    origin_.last = Origin::Last{.is_scheduled = may_go_back_to, .is_own = false};
  progress_.line(fmt::format("resumed after step {}", step()));
  origin_.lacks_best = lacks_best();
}

bool Trainer::lacks_best() {
  if (!writes() || state_.best_score == RunState{}.best_score) return false;
  const FilePlace best = place("best.h5");
  std::string fault = best.path().string() + " is missing";
  if (std::filesystem::exists(best.status())) try {
      load_checkpoint(best, {.model = forms_of(model_)});
      return false;
    } catch (const Error& error) {
      if (error.fault() != Fault::checkpoint) throw;
      const std::string line = error.what();
      fault = line.substr(0, line.rfind("; "));  // another checkpoint is no remedy
    }
  progress_.line(fault + "; the next evaluation writes it anew");
  return true;
}

bool Trainer::is_of_run(const FilePlace& file) const { return writes() && is_same_file(file, place(file.name())); }

Checkpoint Trainer::snapshot() const {
  Checkpoint checkpoint = take_snapshot(config_, model_, optimizer_, state_, data_, data_values_);
  if (averages_) checkpoint.ema = averages_->arrays();
  return checkpoint;
}

void Trainer::restore(const Checkpoint& checkpoint, const SnapshotTarget& target) {
  if (averages_) averages_->set(checkpoint.ema);  // before anything else: it may be refused
  state_ = restore_snapshot(checkpoint, target);
  if (!rolls_back(config_)) state_.returns.clear(), state_.went_back_to = -1;  // nobody would heed them
  train_step_.set(state_);
  evaluation_.reset();
}

// As it is: another save would be of a configuration that no step was made under.
void Trainer::keep_last() {
  if (!writes() || config_.keep == 0) return;
  if (!origin_.last) return save({"last.h5"}, config_.keep);
  keep_checkpoint(place("last.h5"), step(), config_.keep);
}

void Trainer::open_record() {
  if (!writes()) return progress_.log().close();
  check_saved();  // where an error ended `train`, it may still use the record
  if (!record_ && may_lack_kept(state_) && config_.keep > 0) check_can_keep(lock_->folder(), step(), config_.keep);
  Replacements changes = origin_.changes_of_checkpoints(lock_->folder());
  if (!origin_.owes_config()) changes.write(place("config.yaml"), config_text(config_));
  record_.emplace(lock_->folder(), metric_names(config_.metrics), state_, std::move(changes),
                  config_.statistics.every > 0);  // may refuse the configuration's metrics
  if (!origin_.last && origin_.file && std::filesystem::exists(place("last.h5").status()))
    origin_.last = Origin::Last{.is_scheduled = false, .is_own = false};
  progress_.log().open(place("log.txt"));
  for (const std::string& note : record_->notes()) progress_.line(note);
}

void Trainer::measure_for_report() {
  if (!writes() || !config_.report_detail) return;
  if (detail_.layer_times.empty()) try {
      const MachineRates rates = measure_rates(*options_.backend, config_.policy());
      detail_.layer_times = layer_times_text(time_layers(*options_.backend, config_, model_.batch_shape()), rates);
    } catch (const Error& error) {  // arrays that no batch makes smaller, for a report alone
      if (error.fault() != Fault::memory) throw;
      say(fmt::format("warning: the report has no times of layers (report_detail): {}", error.what()));
    }
  if (!detail_.gradients)
    detail_.gradients = std::make_unique<GradientProbe>(*options_.backend, config_, model_, optimizer_,
                                                        data_.test_or_train(), loader_options(config_, options_.world));
}

void Trainer::write_report() {
  if (!writes()) return;
  const Evaluation none{.loss = NAN, .accuracy = NAN};
  write_text(place("report.html"),
             report_html({.run = lock_->folder(),
                          .config = config_,
                          .model = model_,
                          .test = *data_.test_or_train(),
                          .evaluation = evaluation_ ? *evaluation_ : none,
                          .summary = summary() + "\n" + memory_text(*this),
                          .step = step(),
                          .total_steps = total_steps(),
                          .layer_times = detail_.layer_times,
                          .statistics = detail_.statistics,
                          .gradients = detail_.gradients ? (*detail_.gradients)(24) : std::vector<Histogram>{},
                          .is_done = step() == total_steps() || is_out_of_patience(config_, state_)}));
}

void Trainer::log_statistics() {
  if (!statistics_) return;
  detail_.statistics = statistics_->results();
  if (record_) record_->statistics(state_.step, detail_.statistics, config_.statistics.shadow);
  if (const std::string text = overflow_text(detail_.statistics); !text.empty()) progress_.line(text);
}

void Trainer::take_memory() {
  train_step_.store_variables();
  if (evaluator_) evaluator_->store_variables();
  if (!writes() || saver_.has_thread()) return;
  std::int64_t bytes = 0;
  for (const Parameters& saved :
       {model_.parameters(), optimizer_.state(), averages_ ? averages_->model().parameters() : Parameters{}})
    for (const Variable& value : saved.all()) bytes += value.shape().size() * size_of(value.dtype());
  saver_.reserve(2 * bytes + kBytesOfHdf5);  // a copy of the state, its image as a file, and what HDF5 takes for itself
}

void Trainer::save(const std::vector<std::string>& files, std::int64_t keep) {
  const bool is_alone = options_.world.is_alone();
  if (!writes() && is_alone) return;
  saver_.free_room();
  if (writes()) tell(&Callback::save_begins, files);
  check_saved();
  read_sums();
  // The others have the same state, and go back as well, so that no rank waits for the saver to find it.
  if (const std::string array = is_alone ? "" : non_finite_array(snapshot()); !array.empty())
    fail_non_finite(array, step());
  if (!writes()) return;
  const bool is_due = is_scheduled(config_, state_), writes_config = origin_.owes_config(),
             sets_aside = !is_due && origin_.last && origin_.last->is_scheduled && rolls_back(config_);
  const std::int64_t went_back_to = state_.went_back_to;
  if (is_due) state_.went_back_to = -1;
  record_->count(state_);
  const auto checkpoint = std::make_shared<const Checkpoint>(snapshot());
  saver_.start([=, this, step = step()] {
    if (std::string array = non_finite_array(*checkpoint); !array.empty())
      throw Unsaved{std::move(array), step, went_back_to};
    lock_->renew();  // whoever removed the folder's files may have begun another run there
    record_->sync();
    progress_.log().sync();  // rows that a checkpoint counts are durable before it is
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

void Trainer::save_after_failure() try {
  train_step_.forget_parts();
  if (!writes() || step() == 0) return;
  save({"last.h5"});
  check_saved();
  progress_.line(fmt::format("saved after step {}", step()));
} catch (const Error& error) {
  if (error.fault() == Fault::non_finite) throw;  // it came first
}

std::optional<Trainer::Unsaved> Trainer::end_save(void (Saver::*ask)()) try {
  (saver_.*ask)();
  return std::nullopt;
} catch (const Unsaved& unsaved) {
  state_.went_back_to = unsaved.went_back_to;
  return unsaved;
}

void Trainer::check_saved(void (Saver::*ask)()) {
  const auto unsaved = end_save(ask);
  if (unsaved) fail_non_finite(unsaved->array, unsaved->step);
}

}  // namespace nixie
