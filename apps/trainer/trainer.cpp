// The training loop with its evaluations. All that changes on the device is a Variable; all else follows from the step.
#include "nixie/apps/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nixie/apps/trainer/objective.h"
#include "nixie/apps/trainer/program/machine.h"
#include "nixie/apps/trainer/program/watchdog.h"
#include "nixie/apps/trainer/record/due_events.h"
#include "nixie/apps/trainer/report/gradient_probe.h"
#include "nixie/backends/launched_world.h"
#include "nixie/backends/registry.h"
#include "nixie/core/passes/precision.h"

namespace nixie {
namespace {

/// So many skipped steps in a row end a run: its weights no longer change.
constexpr std::int64_t kMostSkipped = 20;

/// [N, C, H, W] of the training batches.
Shape input_shape(const Dataset& dataset, std::int64_t batch) {
  const Shape sample = image_shape(dataset);
  return {batch, sample[0], sample[1], sample[2]};
}

std::int64_t steps_of(const TrainConfig& config, const Loader& loader) {
  return at_key(
      config.places, "accumulate",
      [&] {
        const std::int64_t steps = loader.batches() / config.accumulate;
        if (steps == 0)
          fail(Fault::data, "an epoch has ", loader.batches(), " batches of ", config.data.batch(), ", a step takes ",
               config.accumulate, " (accumulate); take smaller batches, or fewer in a step");
        return steps;
      },
      Fault::data);
}

// Only f16's range needs a scale.
LossScaleOptions loss_scale(const TrainConfig& config) {
  const bool narrow = parameter_dtype(config.policy()) == Dtype::f16 || config.policy() == PrecisionPolicy::fp16;
  return {.scale = narrow ? config.loss_scale : 1};
}

std::optional<Averages> averages_of(const TrainConfig& config, const Model& model, const Shape& input) {
  if (config.ema == 0) return std::nullopt;
  return Averages(model, averaged_model(config, input), config.ema);
}

// Checked even where none are asked for: a key that is wrong is wrong in any case.
std::optional<Statistics> statistics_of(const TrainConfig& config, const Model& model) {
  return at_key(config.places, "statistics", [&]() -> std::optional<Statistics> {
    Statistics statistics(config.statistics, config.policy(), model.formats());
    return config.statistics.every > 0 ? std::optional(std::move(statistics)) : std::nullopt;
  });
}

TrainerOptions with_backend(TrainerOptions options, const TrainConfig& config) {
  if (!options.backend) options.backend = make_backend(config.backend, config.threads, options.world);
  return options;
}

/// `of 10 classes`
std::string target_text(const Dataset& data) {
  if (data.target().is_class()) return fmt::format("of {} classes", data.classes());
  return "with " + to_string(data.target());
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const TrainerOptions& options)
    : config_(config),
      options_(with_backend(options, config)),
      data_(config.data.open()),
      loader_(at_key(
          config.places, "data." + config.data.kind() + ".batch",
          [&] { return Loader(data_.train, loader_options(config, options.world), config.seed, true, options.world); },
          Fault::data)),
      state_{.steps_per_epoch = steps_of(config, loader_)},
      model_(built_model(config, input_shape(*data_.train, share()))),
      optimizer_([&] {
        const RunLength length =
            at_key(config.places, config.steps > 0 ? "steps" : "epochs", [&] { return run_length(); });
        return at_key(config.places, "optimizer", [&] {
          return Optimizer(model_.parameters(),
                           {.rule = config.optimizer,
                            .schedule = config.schedule,
                            .freeze = config.freeze,
                            .groups = config.parameter_groups,
                            .clip_value = config.clip_value,
                            .clip_norm = config.clip_norm,
                            .loss_scale = loss_scale(config)},
                           length);
        });
      }()),
      averages_(averages_of(config, model_, input_shape(*data_.train, share()))),
      statistics_(statistics_of(config_, model_)),
      train_step_(*options_.backend, config_, *data_.train, model_, optimizer_, averages_ ? &*averages_ : nullptr,
                  statistics_ ? &*statistics_ : nullptr, options.world),
      progress_(options.out),
      files_(config_, progress_.log()) {
  check_texts(config_, *data_.train);
  if (data_.test)
    evaluator_.emplace(*options_.backend, averages_ ? averages_->model() : model_, config_, data_.test,
                       loader_options(config_, options.world), "the test half", options.world);
  const auto null = std::ranges::find(options.callbacks, nullptr);
  check(null == options.callbacks.end(), "trainer: callbacks[", null - options.callbacks.begin(),
        "] is null; leave it out");
  if (!options.run.empty()) use_folder(options.run);
  at_key(config.places, "model", [&] {
    check(!model_.parameters().trainable().empty(),
          "the model has no parameters, so there is nothing to train; add a layer that has");
  });
  check_goes_together(config_, model_, data_);
  at_key(config.places, config.freeze.empty() ? "parameter_groups" : "freeze", [&] {
    check(!optimizer_.parameters().empty(), "freeze and parameter_groups leave no parameter to train; take one out");
  });
  if (!config.init_from.empty() && options.reads_init_from) initialize();
}

Trainer::~Trainer() = default;

std::string Trainer::summary() const {
  const Parameters& parameters = model_.parameters();
  std::string notes;
  for (const std::string& note : data_.notes) notes += "\ndata: " + note;
  if (const std::string warning = Objective(config_, data_.train->target()).label_warning(data_); !warning.empty())
    notes += "\n" + warning;
  return ranks_text() +
         fmt::format(
             "{}\nmodel {}: {} parameters in {} arrays, input {}, output {}\n"
             "data {}: {} training and {} test samples {}, {} steps of {} per epoch, {} steps in all{}",
             machine_text(*options_.backend, own_threads(config_.threads, options_.world)), config_.model.kind(),
             parameters.count(), parameters.trainable().size(), model_.input_shape(), model_.output_shape(),
             config_.data.kind(), data_.train->size(), data_.test ? data_.test->size() : 0, target_text(*data_.train),
             steps_per_epoch(), config_.data.batch() * config_.accumulate, total_steps(),
             evaluates() ? "" : "\nnothing is held out: there are no evaluations, and last.h5 is the checkpoint") +
         notes;
}

void Trainer::trace_steps() {
  train_step_.trace();
  if (evaluator_) evaluator_->trace();
}

bool Trainer::train(const std::function<bool()>& stop, const std::function<bool()>& save_now) try {
  check_idle("train");
  files_.check_new();
  const std::unique_ptr<std::optional<Session>, void (*)(std::optional<Session>*)> session(
      &session_, [](auto* ended) { ended->reset(); });
  session_ = Session{stop};
  take_state_of_first();
  trace_steps();
  take_memory();
  // Want of memory, too, refuses a resume before it changes the folder.
  if (files_.origin().is_resumed && step() < total_steps()) train_step_.compile();
  if (files_.has_folder() && data_values_.empty()) data_values_ = values_of(data_);
  tell(&Callback::train_begins);
  bool is_done = false;
  for (bool ended = false; !ended;) try {
      is_done = train_on(save_now);
      check_saved();
      ended = true;
    } catch (const Error& error) {
      roll_back(error);
    }
  tell(&Callback::train_ends, is_done);
  return is_done;
} catch (const std::exception& error) {
  try {
    note(error.what());
  } catch (const Error&) {  // why the run ends is worth more than its line
  }
  throw;
}

bool Trainer::train_on(const std::function<bool()>& save_now) {
  measure_for_report();
  std::optional<Watchdog> watchdog;  // before the folder holds a run: its thread may be refused
  if (options_.out)
    watchdog.emplace([this](const std::string& text) {
      fmt::print(stderr, "{}\n", text);
      progress_.log().add(text);
    });
  start_loader();                        // behind all threads, whose stacks no batch changes
  check_saved();                         // where an error ended `train`, it may still use the record
  const bool begins = !files_.record();  // else it rolled back
  for (const std::string& note : files_.open(state_)) progress_.line(note);
  if (begins && may_lack_kept(state_) && config_.keep > 0 && !files_.keep_last(step())) save({"last.h5"}, config_.keep);
  progress_.start(step(), total_steps(), steps_per_epoch(), config_.data.batch() * config_.accumulate);
  const auto enter = [&](const char* activity) {
    if (watchdog) watchdog->enter(activity);
  };
  const auto tell_saved = [&] {
    check_saved();
    if (files_.has_folder()) progress_.line(fmt::format("saved after step {}", step()));
  };
  const auto evaluated = [&] {
    if (watchdog) watchdog->mark();
    const Requests asked = requests(save_now);
    if (asked.save) save({"last.h5"}), tell_saved();  // a resume begins with the evaluation
    return asked.stop;
  };
  enter("evaluates");
  const bool was_stopped = step() > 0 && is_evaluation_due(config_, state_) && state_.evaluated < step();
  if (was_stopped && !evaluate_and_save(evaluated)) return false;
  // A run that ended early stays so when resumed.
  while (step() < total_steps() && !is_out_of_patience(config_, state_)) {
    const std::int64_t epoch = step() / steps_per_epoch();
    if (step() % steps_per_epoch() == 0) tell(&Callback::epoch_begins, epoch);
    train_once(enter);
    check_saved(&Saver::check);
    tell(&Callback::step_ends, step());
    enter("logs, evaluates or saves");
    const bool evaluates = is_evaluation_due(config_, state_);
    if (evaluates || is_row_due(config_, state_)) log_interval();
    if (evaluates && !evaluate_and_save(evaluated)) return false;
    const auto [stops, is_wanted] = requests(save_now);
    const bool is_stopped = stops && step() < total_steps();
    if (!evaluates && (is_stopped || is_wanted || is_scheduled(config_, state_))) save({"last.h5"});
    if (is_wanted) tell_saved();
    if (step() % steps_per_epoch() == 0) tell(&Callback::epoch_ends, epoch);
    if (is_stopped) return false;
    if (watchdog) watchdog->mark();
  }
  check_saved();
  if (!files_.origin().last) save({"last.h5"});
  return true;
}

const Batch& Trainer::next_batch() {
  const std::int64_t epoch = step() / steps_per_epoch();
  while (loader_.position().epoch < epoch) loader_.next();  // too few for another step, and the end itself
  return *loader_.next();
}

void Trainer::train_once(const std::function<void(const char*)>& enter) {
  std::chrono::steady_clock::duration waited{};
  const auto next = [&]() -> const Batch& {
    expect_exchanges(false);
    enter("waits for a batch of the loader");
    const auto start = std::chrono::steady_clock::now();
    const Batch& batch = or_save([&]() -> const Batch& { return next_batch(); });
    waited += std::chrono::steady_clock::now() - start;
    enter("trains");
    expect_exchanges(train_step_.has_run(state_.step));
    return batch;
  };
  train_step_(next, state_.step);
  expect_exchanges(false);
  ++state_.step;
  evaluation_.reset();
  if (progress_.wants_figures()) show_running_figures();
  progress_.step(state_.step, waited);
}

void Trainer::show_running_figures() {
  const StepSums sums = train_step_.sums();
  const auto steps = static_cast<double>(state_.step - state_.logged - sums.skipped);
  if (steps >= 1) progress_.running(sums.loss / steps, objective().accuracy() ? sums.accuracy / steps : NAN, rate());
}

void Trainer::read_sums() {
  const StepSums sums = train_step_.sums();
  state_.loss_sum = sums.loss;
  state_.accuracy_sum = sums.accuracy;
  state_.skipped = sums.skipped;
  if (sums.first_non_finite > 0) fail_non_finite(NonFinite::kLoss, sums.first_non_finite);
  if (!std::isfinite(state_.loss_sum)) fail_non_finite("the sum of the losses", state_.step);
}

void Trainer::log_interval() {
  read_sums();
  const double steps = static_cast<double>(state_.step - state_.logged - state_.skipped);
  if (steps < 1) {
    if (state_.skipped >= kMostSkipped)
      fail_non_finite(fmt::format("a loss or a gradient of each step since step {}", state_.logged + 1), state_.step);
    if (step() < total_steps()) return;  // the row waits for a step that counts
  }
  if (state_.skipped > 0)
    progress_.line(
        fmt::format("{} of the steps {} to {} had a loss or a gradient that is not finite and changed nothing",
                    state_.skipped, state_.logged + 1, state_.step));
  if (steps < 1) return;
  const std::int64_t epoch = (step() - 1) / steps_per_epoch();
  Interval interval{.epoch = epoch,
                    .step = state_.step,
                    .loss = state_.loss_sum / steps,
                    .accuracy = objective().accuracy() ? state_.accuracy_sum / steps : NAN,
                    .rate = rate()};
  if (const LossScale& scale = optimizer_.loss_scale(); scale.is_dynamic()) {
    interval.loss_scale = scale.scale().array().item();
    interval.skipped_steps = static_cast<std::int64_t>(scale.skipped().array().item());
  }
  if (config_.noise_scale)
    interval.noise_scale = noise_scale(train_step_.sums(), share(), config_.accumulate * options_.world.size());
  if (RunRecord* record = files_.record())
    record->training({.epoch = epoch + 1,
                      .step = state_.step,
                      .loss = interval.loss,
                      .accuracy = interval.accuracy,
                      .rate = interval.rate},
                     progress_.seconds(), progress_.images_per_second());
  progress_.interval(interval);
  log_statistics();
  tell(&Callback::interval_ends, interval);
  count_row(state_);
  train_step_.clear_sums();
}

bool Trainer::evaluate_and_save(const std::function<bool()>& stop) {
  progress_.pause();
  if (!evaluator_) {
    state_.evaluated = state_.step;  // what an evaluation would be followed by is done
    save({"last.h5"}, config_.keep);
    write_report();
    return progress_.resume(), true;
  }
  if (!evaluation_) evaluation_ = or_save([&] { return evaluator_->run(stop); });
  if (!evaluation_) {  // stopped inside it: a resume begins with it
    save({"last.h5"});
    return false;
  }
  const Evaluation& result = *evaluation_;
  if (!std::isfinite(result.loss)) fail_non_finite(kTestLoss, state_.step);
  const std::int64_t epoch = (step() - 1) / steps_per_epoch() + 1;
  std::string line = config_.evaluate_every > 0 ? fmt::format("step {} {}", state_.step, to_string(result))
                                                : fmt::format("epoch {} {}", epoch, to_string(result));
  Figures figures{
      .epoch = epoch, .step = state_.step, .loss = result.loss, .accuracy = result.accuracy, .rate = rate()};
  for (const auto& [name, value] : result.metrics) {
    line += fmt::format(" {} {:.4f}", name, value);
    figures.metrics.push_back(value);
  }
  if (RunRecord* record = files_.record()) record->evaluation(figures);
  progress_.line(line);
  tell(&Callback::evaluation_ends, result);
  optimizer_.schedule().observe(config_.schedule.maximizes() ? result.accuracy : result.loss);
  const bool is_best =
      count_evaluation(state_, score_of(result, config_), std::exchange(files_.origin().lacks_best, false));
  // best.h5 before last.h5, which says that it is there.
  save(is_best ? std::vector<std::string>{"best.h5", "last.h5"} : std::vector<std::string>{"last.h5"}, config_.keep);
  write_report();
  progress_.resume();
  if (is_out_of_patience(config_, state_))
    progress_.line(fmt::format("no better {} in {} evaluations: the run ends",
                               std::isnan(result.accuracy) && config_.best_by == "accuracy" ? "loss" : config_.best_by,
                               config_.patience));
  return true;
}

Evaluation Trainer::evaluate() {
  check(evaluates(), "trainer: nothing is held out (holdout: 0), so there is nothing to evaluate on");
  if (!evaluation_) evaluation_ = evaluator_->run();
  return *evaluation_;
}

}  // namespace nixie
