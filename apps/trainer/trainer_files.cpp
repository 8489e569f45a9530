// A Trainer's files: first weights, checkpoints that it goes on from, saves, the report.
#include <algorithm>
#include <cmath>

#include "nixie/apps/trainer/profile/profile.h"
#include "nixie/apps/trainer/record/due_events.h"
#include "nixie/apps/trainer/record/statistics_lines.h"
#include "nixie/apps/trainer/report/gradient_probe.h"
#include "nixie/apps/trainer/report/report.h"
#include "nixie/apps/trainer/trainer.h"
#include "nixie/models/io/checkpoint_state.h"
#include "nixie/models/io/weights.h"

namespace nixie {
namespace {

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
  files_.end_save(state_);  // it may still write to the folder before
  files_.use(run);
  options_.run = run.path();
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
  files_.end_save(state_);
  check_resumes(config_, changes);
  const SnapshotTarget mine = target(changes);
  go_on_from({file, load_snapshot(file, mine)}, mine, file.path().string());
}

void Trainer::resume_last(const std::vector<std::string>& changes) {
  check_idle("resume_last");
  files_.end_save(state_);
  const SnapshotTarget mine = target(changes);
  std::optional<LoadedFile> loaded = load_first(Origin().candidates(files_.folder()), mine);
  if (!loaded) {
    files_.origin().is_resumed = true;
    if (!config_.init_from.empty() && !options_.reads_init_from) initialize();
    return progress_.line("the run's folder holds no checkpoint; the run begins again");
  }
  check_resumes(config_, changes);
  go_on_from(*std::move(loaded), mine, options_.run.string());
}

void Trainer::go_on_from(LoadedFile loaded, const SnapshotTarget& target, const std::string& from) {
  restore(loaded.checkpoint, target);
  files_.go_on_from(loaded, target, from);
  loaded.checkpoint = {};  // its memory is for the best one
  progress_.line(fmt::format("resumed after step {}", step()));
  if (!files_.has_folder() || state_.best_score == RunState{}.best_score) return;
  const std::string fault = files_.fault_of_best(model_);
  files_.origin().lacks_best = !fault.empty();
  if (!fault.empty()) progress_.line(fault + "; the next evaluation writes it anew");
}

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

void Trainer::measure_for_report() {
  if (!files_.has_folder() || !config_.report_detail) return;
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
  if (!files_.has_folder()) return;
  const Evaluation none{.loss = NAN, .accuracy = NAN};
  write_text(files_.place("report.html"),
             report_html({.run = *files_.folder(),
                          .config = config_,
                          .model = model_,
                          .test = *data_.test_or_train(),
                          .evaluation = evaluation_ ? *evaluation_ : none,
                          .summary = summary() + "\n" + memory_text(),
                          .step = step(),
                          .total_steps = total_steps(),
                          .layer_times = detail_.layer_times,
                          .statistics = detail_.statistics,
                          .gradients = detail_.gradients ? (*detail_.gradients)(24) : std::vector<Histogram>{},
                          .is_done = step() == total_steps() || is_out_of_patience(config_, state_)}));
}

std::string Trainer::memory_text() {
  const auto mebibytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return fmt::format("memory: parameters {:.1f} MiB, optimizer {:.1f} MiB, values of a training step {:.1f} MiB",
                     mebibytes(bytes_of(model_.parameters())), mebibytes(bytes_of(optimizer_.state())),
                     mebibytes(plan().arena_bytes));
}

std::string Trainer::large_arrays_text() const {
  constexpr std::int64_t kLarge = 50'000'000;
  std::string text;
  for (const Variable& variable : model_.parameters().trainable())
    if (variable.shape().size() >= kLarge)
      text += fmt::format("{}warning: {} {} has {} parameters; is the input {} meant?", text.empty() ? "" : "\n",
                          variable.name(), variable.shape(), variable.shape().size(), model_.input_shape());
  return text;
}

void Trainer::log_statistics() {
  if (!statistics_) return;
  detail_.statistics = statistics_->results();
  if (RunRecord* record = files_.record())
    record->statistics(state_.step, detail_.statistics, config_.statistics.shadow);
  if (const std::string text = overflow_text(detail_.statistics); !text.empty()) progress_.line(text);
}

void Trainer::take_memory() {
  train_step_.store_variables();
  if (evaluator_) evaluator_->store_variables();
  std::int64_t bytes = 0;
  for (const Parameters& saved :
       {model_.parameters(), optimizer_.state(), averages_ ? averages_->model().parameters() : Parameters{}})
    bytes += bytes_of(saved);
  files_.reserve(bytes);
}

void Trainer::save(const std::vector<std::string>& files, std::int64_t keep) {
  const bool is_alone = options_.world.is_alone(), writes = files_.has_folder();
  if (!writes && is_alone) return;
  files_.free_room();
  if (writes) tell(&Callback::save_begins, files);
  check_saved();
  read_sums();
  // The others have the same state, and go back as well, so that no rank waits for the saver to find it.
  if (const std::string array = is_alone ? "" : non_finite_array(snapshot()); !array.empty())
    fail_non_finite(array, step());
  if (writes) files_.save(state_, files, keep, [this] { return snapshot(); });
}

void Trainer::save_after_failure() try {
  train_step_.forget_parts();
  if (!files_.has_folder() || step() == 0) return;
  save({"last.h5"});
  check_saved();
  progress_.line(fmt::format("saved after step {}", step()));
} catch (const Error& error) {
  if (error.fault() == Fault::non_finite) throw;  // it came first
}

void Trainer::check_saved(void (Saver::*ask)()) {
  const auto unsaved = files_.end_save(state_, ask);
  if (unsaved) fail_non_finite(unsaved->array, unsaved->step);
}

}  // namespace nixie
