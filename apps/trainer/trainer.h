// Trainer: a training run: the model, its data and optimizer, the loop, and its files.
//
//   Trainer trainer(load_config("configs/demo.yaml"), {.run = "runs/mine", .out = stdout});
//   trainer.train();
//   Evaluation result = trainer.evaluate();
#pragma once

#include "nixie/apps/trainer/evaluator.h"
#include "nixie/apps/trainer/progress.h"
#include "nixie/apps/trainer/run_files.h"
#include "nixie/apps/trainer/train_step.h"

namespace nixie {

class GradientProbe;
class Trainer;

/// Hooks of a run, called from the thread that trains. An exception of one ends the run.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void train_begins(Trainer&) {}
  virtual void epoch_begins(Trainer&, std::int64_t /*epoch*/) {}  ///< from 0
  virtual void step_ends(Trainer&, std::int64_t /*step*/) {}      ///< steps done
  virtual void interval_ends(Trainer&, const Interval&) {}        ///< with each row of training
  virtual void evaluation_ends(Trainer&, const Evaluation&) {}
  virtual void save_begins(Trainer&, const std::vector<std::string>& /*files*/) {}
  virtual void epoch_ends(Trainer&, std::int64_t /*epoch*/) {}
  virtual void train_ends(Trainer&, bool /*is_done*/) {}  ///< false: the run was stopped
};

struct TrainerOptions {
  std::filesystem::path run = {};              ///< an existing folder for the run's files; empty: none are written
  std::FILE* out = nullptr;                    ///< where progress is printed; null: nowhere
  std::shared_ptr<Backend> backend = nullptr;  ///< null: the configuration's
  bool reads_init_from = true;                 ///< false: a resume follows, which brings all weights
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  /// The ranks that train together, each with a Trainer. The first one's folder, state and output are the run's; the
  /// others have no folder.
  World world = {};
};

class Trainer {
 public:
  /// Opens the data and builds the model. Writes nothing yet. Throws where configuration, data and model do not fit.
  explicit Trainer(const TrainConfig& config, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// An existing folder for the run's files, in place of TrainerOptions::run. Throws where another trainer holds it.
  void use_folder(const Folder& run);
  /// Goes on where a checkpoint was written. `changes` are the parts of the configuration (`model`, `data`,
  /// `optimizer`) that may differ from the checkpoint's; others are a usage Error. Throws Fault::checkpoint.
  void resume(const FilePlace& file, const std::vector<std::string>& changes = {});
  /// The same with the run folder's last.h5, or best.h5 where that is damaged. A run that was never saved begins again.
  void resume_last(const std::vector<std::string>& changes = {});
  void resume() { resume_last(); }

  /// Traces the training step and the evaluation, which finds what does not go together. Nothing is run; `train` begins
  /// with it.
  void trace_steps();
  /// Takes the memory that no batch changes: for the values of Variables, and, until the first save, for what a save
  /// takes beside them. `train` does so before it plans a step: what is wanting from then on a smaller batch may leave.
  /// Throws Fault::memory.
  void take_memory();
  /// Trains to the end, or until `stop` is true after a step or inside an evaluation: the state is then saved, and the
  /// result is false. Where `save` is true after a step, the state is saved and training goes on. Saving takes a copy
  /// of the state and writes it while training goes on; it is written when this returns. Throws Fault::non_finite where
  /// the loss or a value to save is no number, Fault::storage where the run folder cannot be written, a usage Error
  /// where it holds a run that was not resumed.
  bool train(const std::function<bool()>& stop = {}, const std::function<bool()>& save = {});

  /// Whether a part of the data is held out, without which there are no evaluations and no best.h5.
  bool evaluates() const { return evaluator_.has_value(); }
  /// Over the whole test half. Throws a usage Error where there is none.
  Evaluation evaluate();

  /// The simplified graph of a training step, and the plan by which the backend would run it. Nothing is run. A step
  /// over several batches gives the part that updates.
  const Graph& graph() { return train_step_.graph(); }
  const Plan& plan() { return train_step_.plan(); }

  /// Prints a line, or several, where progress is printed, and into the run's log.txt.
  void say(const std::string& text) { progress_.line(text); }
  /// A line for the run's log.txt alone.
  void note(const std::string& text) { progress_.log().add(text); }
  /// Lines that say what is about to run.
  std::string summary() const;
  /// `memory: parameters ..., optimizer ..., values of a training step ...`
  std::string memory_text();
  /// A line for each array that is probably not meant to be so large: a linear layer over a whole image; "" without
  /// one.
  std::string large_arrays_text() const;
  const TrainConfig& config() const { return config_; }
  const Model& model() const { return model_; }
  const Optimizer& optimizer() const { return optimizer_; }
  /// Statistics of the steps since the last row of training; none where the configuration asks for none.
  std::vector<TensorStatistics> statistics() const {
    return statistics_ ? statistics_->results() : std::vector<TensorStatistics>{};
  }
  /// From a callback: the run ends after this step as if it was asked to stop.
  void stop() {
    if (session_) session_->is_stopped = true;
  }
  std::int64_t step() const { return state_.step; }
  std::int64_t total_steps() const { return config_.total_steps(state_.steps_per_epoch); }
  std::int64_t steps_per_epoch() const { return state_.steps_per_epoch; }
  /// The time in which the last call of `train` waited for batches.
  double seconds_waited() const { return progress_.seconds_waited(); }

 private:
  static constexpr const char* kTestLoss = "the test loss";

  /// A call of `train`, for as long as it runs.
  struct Session {
    std::function<bool()> stop;
    bool is_stopped = false;
  };

  /// What only the report shows (`report_detail`).
  struct Detail {
    std::string layer_times;
    std::unique_ptr<GradientProbe> gradients;
    std::vector<TensorStatistics> statistics;  // of the last row
  };

  void initialize();
  /// Throws a usage Error while `train` runs, which `call` would pull the state away from.
  void check_idle(const char* call) const;
  struct Requests {
    bool stop, save;
  };
  /// What any rank is asked for. All ranks call it.
  Requests requests(const std::function<bool()>& save_now = {}) const;
  bool is_asked_to_stop() const { return requests().stop; }
  /// This rank's samples of a batch.
  std::int64_t share() const;
  /// The state of every rank becomes that of the first. All ranks call it.
  void take_state_of_first();
  /// The first line of the summary of several ranks.
  std::string ranks_text() const;
  RunLength run_length() const {
    return {.steps_per_epoch = static_cast<double>(steps_per_epoch()),
            .epochs = static_cast<double>(total_steps()) / static_cast<double>(steps_per_epoch())};
  }
  SnapshotTarget target(const std::vector<std::string>& changes);
  Checkpoint snapshot() const;
  void restore(const Checkpoint& checkpoint, const SnapshotTarget& target);
  void go_on_from(LoadedFile loaded, const SnapshotTarget& target, const std::string& from);
  void start_loader() {
    loader_.start({.epoch = step() / steps_per_epoch(), .batch = step() % steps_per_epoch() * config_.accumulate});
  }
  bool train_on(const std::function<bool()>& save_now);
  /// The next batch of the step that follows those that are done.
  const Batch& next_batch();
  /// Calls a reader of data between two steps, or between the batches of one: if it fails, the steps done are saved.
  template <class Read>
  decltype(auto) or_save(const Read& read) {
    try {
      return read();
    } catch (...) {
      save_after_failure();
      throw;
    }
  }
  void train_once(const std::function<void(const char*)>& enter);
  template <class Event, class... About>
  void tell(Event event, const About&... about) {
    for (const auto& callback : options_.callbacks) ((*callback).*event)(*this, about...);
  }
  void show_running_figures();
  void read_sums();
  void log_interval();
  /// Saves alone where nothing is held out.
  bool evaluate_and_save(const std::function<bool()>& stop);
  double rate() const { return optimizer_.schedule().rate(state_.step - 1) * state_.rate_factor(); }
  /// Restores the newest checkpoint before step `below` on the present course (RunFiles::restore_good), else the start.
  void go_back(std::int64_t below, bool any = false);
  void start_again();
  /// Repeats the steps up to `step` and looks into that one: where values first are not finite; "" where that is not
  /// found within a minute.
  NonFinite first_non_finite(std::int64_t step);
  [[noreturn]] void fail_non_finite(const std::string& what, std::int64_t step);
  /// Goes back with a smaller rate where the configuration says so; else throws the error.
  void roll_back(const Error& error);
  /// Saves in the background (RunFiles::save).
  void save(const std::vector<std::string>& files, std::int64_t keep = 0);
  /// The run ends with an error that cost no step: saves the state, and hides faults of saving behind that error.
  void save_after_failure();
  /// Waits for the last save, or only asks for it. Throws Fault::non_finite where it did not write.
  void check_saved(void (Saver::*ask)() = &Saver::wait);
  Objective objective() const { return Objective(config_, data_.train->target()); }
  /// Writes a row of statistics, and says where a value first was not finite.
  void log_statistics();
  void measure_for_report();
  void write_report();

  TrainConfig config_;
  TrainerOptions options_;  // with the backend in any case
  Splits data_;
  Checkpoint::Values data_values_;  // what a checkpoint says of them, read before the first step
  Loader loader_;
  RunState state_;
  Model model_;
  Optimizer optimizer_;
  std::optional<Averages> averages_;
  std::optional<Statistics> statistics_;  // none where none are asked for
  TrainStep train_step_;
  std::optional<Evaluator> evaluator_;  // none where nothing is held out
  Progress progress_;
  std::optional<Session> session_;
  std::optional<Evaluation> evaluation_;  // of the present weights
  Detail detail_;
  RunFiles files_;  // last: it writes what others hold until it is destroyed
};

}  // namespace nixie
