// Trainer: a training run: the model, its data and optimizer, the loop, and its files.
//
//   Trainer trainer(load_config("configs/demo.yaml"), {.run = "runs/mine", .out = stdout});
//   trainer.train();
//   Evaluation result = trainer.evaluate();
#pragma once

#include <limits>

#include "nixie/apps/trainer/evaluator.h"
#include "nixie/apps/trainer/progress.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/record/run_record.h"
#include "nixie/apps/trainer/record/saver.h"
#include "nixie/apps/trainer/snapshot.h"
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
  const TrainConfig& config() const { return config_; }
  const Model& model() const { return model_; }
  const Optimizer& optimizer() const { return optimizer_; }
  /// From a callback: the run ends after this step as if it was asked to stop.
  void stop() { is_stopped_ = true; }
  std::int64_t step() const { return state_.step; }
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// The time in which the last call of `train` waited for batches.
  double seconds_waited() const { return progress_.seconds_waited(); }

 private:
  static constexpr const char* kTestLoss = "the test loss";
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// A state that could not be saved.
  struct Unsaved {
    std::string array;           // the first that is not finite
    std::int64_t step = 0;       // of the state
    std::int64_t past = kNever;  // past_ as it was before
  };

  /// Sets a flag for as long as it lives.
  class Mark {
   public:
    explicit Mark(bool& flag) : flag_(flag) { flag_ = true; }
    ~Mark() { flag_ = false; }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    bool& flag_;
  };

  void initialize();
  /// Throws a usage Error while `train` runs, which `call` would pull the state away from.
  void check_idle(const char* call) const;
  RunLength run_length() const {
    return {.steps_per_epoch = static_cast<double>(steps_per_epoch_),
            .epochs = static_cast<double>(total_steps_) / static_cast<double>(steps_per_epoch_)};
  }
  SnapshotTarget target(const std::vector<std::string>& changes);
  void restore(const Checkpoint& checkpoint, const SnapshotTarget& target);
  void go_on_from(LoadedFile loaded, const SnapshotTarget& target);
  /// Tells where the run's best checkpoint is missing, damaged or of another model.
  void check_best();
  /// The changes to the folder, besides the record, of going on from an earlier checkpoint.
  Replacements going_back() const;
  void keep_last();
  /// Opens the run's files. Asks for everything that they may refuse before the first is changed.
  void open_record();
  /// Whether the run may have been killed when last.h5 was written, before it was kept under its step's name.
  bool may_lack_kept() const { return state_.step > 0 && state_.evaluated == state_.step && state_.went_back_to < 0; }
  void log_failure(const std::string& what);
  void start_loader();
  bool train_on(const std::function<bool()>& stop, const std::function<bool()>& save_now);
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
  /// The first step after the present one that is followed by an evaluation.
  std::int64_t next_evaluation() const;
  bool is_evaluation_due() const;
  bool is_row_due() const;
  /// Saves alone where nothing is held out.
  bool evaluate_and_save(const std::function<bool()>& stop);
  double score(const Evaluation& result) const;
  bool is_out_of_patience() const;
  double rate() const;
  bool rolls_back() const { return goes_back(config_); }
  static bool goes_back(const TrainConfig& config) { return config.non_finite == "roll_back"; }
  /// To the newest good checkpoint of a step below this one that the present state comes from, or to the start where
  /// there is none. A run goes back to none that a signal asked for, unless it began with it: stopped and resumed it
  /// ends as if it had not been.
  void go_back(std::int64_t below);
  bool load_good(std::int64_t below);
  /// Whether the present state comes from a checkpoint's: by the steps gone back to and, of a checkpoint in the run's
  /// folder, by the rows it counts. A resume from an earlier one leaves those behind it there.
  bool is_past(const FilePlace& file, const RunState& state) const;
  /// Whether a checkpoint of the run is one that its own configuration did not ask for, and goes back to none such.
  bool is_extra(const FilePlace& file, const Checkpoint& header, const SnapshotTarget& target) const;
  void start_again();
  /// best.h5 stays the best of all that the run did, also behind the step that it went back to.
  void keep_best_score();
  void save_where_it_went_back();
  /// The step of last.h5; -1 where there is none that is whole.
  std::int64_t last_step() const;
  /// Whether the file is in the run's folder.
  bool is_of_run(const FilePlace& file) const;
  /// Repeats the steps up to `step` and looks into that one: where values first are not finite; "" where that is not
  /// found within a minute.
  NonFinite first_non_finite(std::int64_t step);
  [[noreturn]] void fail_non_finite(const std::string& what, std::int64_t step);
  /// Goes back with a smaller rate where the configuration says so; else throws the error.
  void roll_back(const Error& error);
  /// Copies the state; files of the run folder are written from the copy in the background, in order, and last.h5 is
  /// kept as step-N.h5 where `keep` is more than 0. Nothing is written of a state that is not finite.
  void save(const std::vector<std::string>& files, std::int64_t keep = 0);
  /// The run ends with an error that cost no step: saves the state, and hides faults of saving behind that error.
  void save_after_failure();
  void note_saved(const std::string& file);
  std::optional<Unsaved> take_unsaved();
  /// Throws Fault::non_finite where the last save did not write for values that are no numbers.
  void check_saved();
  Objective objective() const { return Objective(config_, data_.train->target()); }
  void measure_for_report();
  void write_report();
  /// Those that the run's folder may hold.
  std::vector<FilePlace> checkpoints() const;
  /// The path of a file of the run.
  FilePlace place(const std::string& file) const { return {lock_->folder(), file}; }
  bool writes() const { return !options_.run.empty(); }

  TrainConfig config_;
  TrainerOptions options_;
  std::shared_ptr<Backend> backend_;
  Splits data_;
  Checkpoint::Values data_values_;  // what a checkpoint says of them, read before the first step
  LoaderOptions loader_options_;
  Loader loader_;
  std::int64_t steps_per_epoch_;
  Model model_;
  std::int64_t total_steps_;
  Optimizer optimizer_;
  RunState state_;
  std::optional<Averages> averages_;
  TrainStep train_step_;
  std::optional<Evaluator> evaluator_;  // none where nothing is held out
  Progress progress_;
  std::mutex saved_mutex_;          // of the next two
  std::string saved_;               // the last checkpoint written or read, for messages
  std::optional<Unsaved> unsaved_;  // by the last save
  bool is_stopped_ = false, is_training_ = false, is_resumed_ = false;
  std::function<bool()> asks_to_stop_;    // whether the run, or what it searches, is to end
  bool is_repeating_ = false;             // steps whose rows are written already
  bool lacks_last_ = false;               // last.h5 is none that the run wrote or went on from
  bool has_scheduled_last_ = false;       // last.h5 is of the schedule; set by the saver
  bool agrees_with_table_ = true;         // metrics.csv began with the rows that the checkpoint counted
  bool has_config_ = false;               // config.yaml is this run's: a change waits for its first checkpoint
  bool lacks_best_ = false;               // best.h5 is lost: the next evaluation writes it, whatever its score
  std::optional<FilePlace> begins_with_;  // the checkpoint that the run went on from
  std::vector<FilePlace> good_;           // where there may be one to go back to
  std::vector<std::string> changes_;      // parts of the configuration that may differ from the checkpoint's
  std::int64_t past_ = kNever;            // the step that the run went back to, where it was not saved since
  std::optional<Evaluation> evaluation_;  // of the present weights
  std::optional<RunLock> lock_;
  std::optional<RunRecord> record_;
  bool has_memory_ = false;
  std::unique_ptr<std::byte[]> room_for_save_;
  std::string layer_times_;  // for the report, where it is asked for
  std::unique_ptr<GradientProbe> probe_;
  Saver saver_;  // last: it writes the members above until it is destroyed
};

}  // namespace nixie
