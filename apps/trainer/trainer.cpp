// The training loop. All that changes on the device is a Variable; all else follows from the number of steps done.
#include "nixie/apps/trainer/trainer.h"

#include <cmath>

#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/report/report.h"
#include "nixie/apps/trainer/watchdog.h"
#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/models/io/durable_file.h"
#include "nixie/models/io/weights.h"

namespace nixie {
namespace {

LoaderOptions with_batch(LoaderOptions options, std::int64_t batch) {
  options.batch = batch;
  return options;
}

/// [N, C, H, W] of the training batches.
Shape input_shape(const Dataset& dataset, std::int64_t batch) {
  const Shape sample = dataset.sample_shape();
  return {batch, sample[0], sample[1], sample[2]};
}

/// Whether the model can name every class; said here, since labels are only known when they are used.
void check_classes(const Model& model, const Dataset& dataset) {
  const Shape out = model.output_shape();
  check(out.rank() == 1, "the model's output is ", out, " for a sample, expected one number per class");
  check(out[0] >= dataset.classes(), "the model has ", out[0], " outputs, the data ", dataset.classes(),
        " classes; set the model's classes");
}

// Only f16's range needs a scale.
LossScaleOptions loss_scale(const TrainConfig& config) {
  const bool narrow = parameter_dtype(config.policy()) == Dtype::f16 || config.policy() == PrecisionPolicy::fp16;
  return {.scale = narrow ? config.loss_scale : 1};
}

/// Names the line of the file where a layer that does not fit stands.
Model built_model(const TrainConfig& config, const Shape& input) try {
  return Model(config.model, input, config.seed, parameter_dtype(config.policy()));
} catch (const Error& error) {
  const std::string line = error.what();
  const auto place = config.layer_places.find(line.substr(0, line.find(" (")));  // `1.conv (conv2d): input is ...`
  if (place == config.layer_places.end()) throw;
  throw Error(error.fault(), to_string(place->second) + ": " + line);
}

// What is frozen comes first: the first group that holds a parameter counts.
std::vector<ParameterGroup> parameter_groups(const TrainConfig& config) {
  std::vector<ParameterGroup> groups;
  for (const std::string& pattern : config.freeze) groups.push_back({.match = pattern, .rate = 0});
  groups.insert(groups.end(), config.parameter_groups.begin(), config.parameter_groups.end());
  return groups;
}

std::optional<Averages> averages_of(const TrainConfig& config, const Model& model, const Shape& input) {
  if (config.ema == 0) return std::nullopt;
  return Averages(model, built_model(config, input), config.ema);
}

std::vector<std::string> metric_names(const std::vector<AnyMetric>& metrics) {
  std::vector<std::string> names;
  for (const AnyMetric& metric : metrics) names.push_back(metric.kind());
  return names;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const TrainerOptions& options)
    : config_(config),
      options_(options),
      backend_(options.backend ? options.backend : open_backend(config.backend, config.threads)),
      data_(config.data.open()),
      loader_options_(with_batch(config.loader, config.data.batch())),
      loader_(data_.train, loader_options_, config.seed, true),
      model_(built_model(config, input_shape(*data_.train, config.data.batch()))),
      total_steps_(config.total_steps(loader_.batches())),
      optimizer_(model_.parameters(),
                 {.rule = config.optimizer,
                  .schedule = config.schedule,
                  .groups = parameter_groups(config),
                  .clip_value = config.clip_value,
                  .clip_norm = config.clip_norm,
                  .loss_scale = loss_scale(config)},
                 {.steps_per_epoch = static_cast<double>(loader_.batches()),
                  .epochs = static_cast<double>(total_steps_) / static_cast<double>(loader_.batches())}),
      state_{.steps_per_epoch = loader_.batches()},
      mixing_(config.mixing, config.seed),
      averages_(averages_of(config, model_, input_shape(*data_.train, config.data.batch()))),
      step_("step", Array(Dtype::i32, Shape{}), false),
      loss_sum_("loss_sum", Array(Dtype::f32, Shape{}), false),
      accuracy_sum_("accuracy_sum", Array(Dtype::f32, Shape{}), false),
      non_finite_("non_finite", Array(Dtype::i32, Shape{}), false),
      skipped_("skipped", Array(Dtype::i32, Shape{}), false),
      train_step_(
          *backend_, [this](const Inputs& in) { return train_body(in); }, config.policy()),
      evaluator_(*backend_, averages_ ? averages_->model() : model_, config.loss, config.metrics, data_.test,
                 loader_options_, config.policy()),
      progress_(options.out) {
  if (!options.run.empty()) use_folder(options.run);
  check_classes(model_, *data_.train);
  check(!optimizer_.parameters().empty(), "freeze and parameter_groups leave no parameter to train; take one out");
  if (!config.init_from.empty() && options.reads_init_from) initialize();
}

void Trainer::initialize() {
  const WeightReport report = set_weights(model_.parameters(), read_weights(config_.init_from));
  if (report.taken.empty())
    fail(Fault::checkpoint, config_.init_from, ": no array has the name and shape of one of the model's; it has ",
         report.unused.empty() ? "none" : report.unused[0], ", the model ", model_.parameters().all()[0].name());
  if (averages_) averages_->restart();
  progress_.line("init_from " + config_.init_from + ": " + to_string(report));
}

Outputs Trainer::train_body(const Inputs& in) {
  const Tensor now = step_;
  Pass pass{.training = true, .step = now, .seed = config_.seed};
  const Tensor images = data_.train->pixels(in["images"]);
  const Tensor output = model_(mixing_.is_on() ? Mixing::images(images, in["mixing"]) : images, pass);
  const Tensor loss = mixing_.is_on() ? Mixing::loss(config_.loss, output, in["labels"], in["mixing"])
                                      : config_.loss(output, in["labels"]);
  const std::vector<Gradient> slopes = gradients(optimizer_.scaled(loss), optimizer_.parameters());
  optimizer_.update(slopes, now);
  if (averages_) averages_->update(now);
  if (config_.non_finite == "skip") {
    // A dynamic loss scale looks at the gradients itself.
    const Tensor good = is_finite(loss),
                 ok = optimizer_.loss_scale().is_dynamic() ? good : logical_and(good, all_finite(slopes));
    Trace::rollback_unless(ok);
    count_step(now, where(ok, loss, 0), where(ok, accuracy(output, in["labels"]), 0));
    skipped_.set(skipped_ + (1 - cast(ok, Dtype::i32)));
  } else {
    count_step(now, loss, accuracy(output, in["labels"]));
  }
  return {};
}

void Trainer::count_step(const Tensor& now, const Tensor& loss, const Tensor& accuracy) {
  loss_sum_.set(loss_sum_ + loss);
  accuracy_sum_.set(accuracy_sum_ + accuracy);
  // The step of the first loss that is no number, found on the device: the host reads it with the sums.
  non_finite_.set(where(logical_and(non_finite_ == 0, logical_not(is_finite(loss))), now + 1, non_finite_));
  step_.set(now + 1);
}

std::map<std::string, Tensor> Trainer::placeholders() const {
  const std::int64_t batch = config_.data.batch();
  const Dtype stored = data_.train->bytes() ? Dtype::u8 : Dtype::f32;
  std::map<std::string, Tensor> inputs = {{"images", placeholder(input_shape(*data_.train, batch), stored)},
                                          {"labels", placeholder({batch}, Dtype::i32)}};
  if (mixing_.is_on()) inputs.emplace("mixing", placeholder({6}));
  return inputs;
}

const Graph& Trainer::graph() { return train_step_.graph(placeholders()); }

const Plan& Trainer::plan() { return train_step_.plan(placeholders()); }

std::string Trainer::summary() const {
  const Parameters& parameters = model_.parameters();
  std::string notes;
  for (const std::string& note : data_.notes) notes += "\ndata: " + note;
  return fmt::format(
             "{}\nmodel {}: {} parameters in {} arrays, input {}, output {}\n"
             "data {}: {} training and {} test samples of {} classes, {} steps of {} per epoch, {} steps in all",
             machine_text(*backend_, config_.threads), config_.model.kind(), parameters.count(),
             parameters.trainable().size(), model_.input_shape(), model_.output_shape(), config_.data.kind(),
             data_.train->size(), data_.test->size(), data_.train->classes(), state_.steps_per_epoch,
             config_.data.batch(), total_steps_) +
         notes;
}

void Trainer::use_folder(const std::filesystem::path& run) {
  lock_.emplace(run);
  options_.run = run;
}

SnapshotTarget Trainer::target(const std::vector<std::string>& changes) {
  return {config_, model_, optimizer_, data_, state_.steps_per_epoch, changes, [this](const std::string& note) {
            progress_.line(note);
          }};
}

void Trainer::resume(const std::filesystem::path& file, const std::vector<std::string>& changes) {
  const SnapshotTarget mine = target(changes);
  restore(load_snapshot(file, mine), mine);
  saved_ = file.string();
}

void Trainer::resume_last(const std::vector<std::string>& changes) {
  const SnapshotTarget mine = target(changes);
  const auto checkpoint = load_first({path("last.h5"), path("best.h5")}, mine);
  if (!checkpoint) return progress_.line("the run was not saved yet; it begins again");
  restore(*checkpoint, mine);
  saved_ = options_.run.string();
}

void Trainer::restore(const Checkpoint& checkpoint, const SnapshotTarget& target) {
  if (averages_) averages_->set(checkpoint.ema);  // before anything else: it may be refused
  state_ = restore_snapshot(checkpoint, target);
  step_.set(static_cast<std::int32_t>(state_.step));
  loss_sum_.set(state_.loss_sum);
  accuracy_sum_.set(state_.accuracy_sum);
  skipped_.set(static_cast<std::int32_t>(state_.skipped));
  evaluation_.reset();
  progress_.line(fmt::format("resumed after step {}", state_.step));
}

void Trainer::open_record() {
  if (!writes()) return;
  remove_stale_temporaries(options_.run);  // of a process that was killed while it saved
  write_text(path("config.yaml"), config_text(config_));
  record_.emplace(options_.run, metric_names(config_.metrics), state_.step);
  if (state_.metrics_bytes >= 0 && state_.metrics_bytes != record_->metrics_bytes())
    progress_.line(
        fmt::format("{} has {} bytes up to step {}, but had {} when the checkpoint was written: rows are "
                    "missing or were changed",
                    path("metrics.csv").string(), record_->metrics_bytes(), state_.step, state_.metrics_bytes));
}

bool Trainer::train(const std::function<bool()>& stop, const std::function<bool()>& save_now) {
  open_record();
  progress_.start(state_.step, total_steps_, state_.steps_per_epoch, config_.data.batch());
  loader_.start({.epoch = state_.step / state_.steps_per_epoch, .batch = state_.step % state_.steps_per_epoch});
  std::optional<Watchdog> watchdog;
  if (options_.out) watchdog.emplace([](const std::string& text) { fmt::print(stderr, "{}\n", text); });
  const auto enter = [&](const char* activity) {
    if (watchdog) watchdog->enter(activity);
  };
  const auto evaluated = [&] {
    if (watchdog) watchdog->mark();
    return stop && stop();
  };
  enter("evaluates");
  const bool is_evaluation_due = state_.step > 0 && is_epoch_end() && state_.evaluated < state_.step;
  if (is_evaluation_due && !end_epoch(evaluated)) return false;
  while (state_.step < total_steps_ && !is_out_of_patience()) {  // a run that ended early stays so when resumed
    enter("waits for a batch of the loader");
    const Batch* batch = loader_.next();
    if (!batch) continue;  // between two epochs
    enter("trains");
    train_on(*batch);
    enter("logs, evaluates or saves");
    const bool is_end = is_epoch_end();
    if (is_end || state_.step % config_.log_every == 0) log_interval();
    if (is_end && !end_epoch(evaluated)) return false;
    const bool is_stopped = stop && stop() && state_.step < total_steps_, is_wanted = save_now && save_now();
    const bool is_due = config_.save_every > 0 && state_.step % config_.save_every == 0;
    if (!is_end && (is_stopped || is_wanted || is_due)) save("last.h5");
    if (is_wanted && writes()) progress_.line(fmt::format("saved after step {}", state_.step));
    if (is_stopped) return false;
    if (watchdog) watchdog->mark();
  }
  return true;
}

void Trainer::train_on(const Batch& batch) {
  std::map<std::string, Tensor> inputs = {{"images", batch.images}, {"labels", batch.labels}};
  if (mixing_.is_on())
    inputs.emplace("mixing", mixing_.draw(state_.step, model_.input_shape()[1], model_.input_shape()[2]));
  train_step_(inputs);
  ++state_.step;
  evaluation_.reset();
  progress_.step(state_.step);
}

void Trainer::read_sums() {
  state_.loss_sum = loss_sum_.array().item();
  state_.accuracy_sum = accuracy_sum_.array().item();
  state_.skipped = static_cast<std::int64_t>(skipped_.array().item());
  const auto first = static_cast<std::int64_t>(non_finite_.array().item());
  if (first > 0) fail_non_finite("the loss", first);
  if (!std::isfinite(state_.loss_sum)) fail_non_finite("the sum of the losses", state_.step);
}

void Trainer::fail_non_finite(const std::string& what, std::int64_t step) const {
  const Checkpoint now = take_snapshot(config_, model_, optimizer_, state_, data_);
  const std::string array = non_finite_array(now);
  fail(Fault::non_finite, what, " is not finite at step ", step,
       array.empty() || array == what ? "" : ", nor is " + array, " (the last good log row is of step ", state_.logged,
       ", the last good checkpoint ", saved_.empty() ? "none" : saved_,
       "); try a smaller rate, a warm-up or clip_norm");
}

void Trainer::log_interval() {
  read_sums();
  const double steps = static_cast<double>(state_.step - state_.logged - state_.skipped);
  if (steps < 1) fail_non_finite(fmt::format("every loss since step {}", state_.logged + 1), state_.step);
  if (state_.skipped > 0)
    progress_.line(
        fmt::format("{} of the steps {} to {} had a loss or a gradient that is not finite and changed nothing",
                    state_.skipped, state_.logged + 1, state_.step));
  const std::int64_t epoch = (state_.step - 1) / state_.steps_per_epoch;
  Interval interval{.epoch = epoch,
                    .step = state_.step,
                    .loss = state_.loss_sum / steps,
                    .accuracy = state_.accuracy_sum / steps,
                    .rate = optimizer_.schedule().rate(state_.step - 1)};
  if (const LossScale& scale = optimizer_.loss_scale(); scale.is_dynamic()) {
    interval.loss_scale = scale.scale().array().item();
    interval.skipped_steps = static_cast<std::int64_t>(scale.skipped().array().item());
  }
  if (record_)
    record_->training({.epoch = epoch + 1,
                       .step = state_.step,
                       .loss = interval.loss,
                       .accuracy = interval.accuracy,
                       .rate = interval.rate},
                      progress_.seconds(), progress_.images_per_second());
  progress_.interval(interval);
  state_.logged = state_.step;
  state_.loss_sum = state_.accuracy_sum = 0;
  state_.skipped = 0;
  skipped_.set(0);
  loss_sum_.set(0.0);
  accuracy_sum_.set(0.0);
}

// Larger is better.
double Trainer::score(const Evaluation& result) const {
  if (config_.best_by == "accuracy") return result.accuracy;
  if (config_.best_by == "loss") return -result.loss;
  const auto found = std::find_if(result.metrics.begin(), result.metrics.end(),
                                  [&](const auto& metric) { return metric.first == config_.best_by; });
  const bool is_error = config_.best_by == LogLoss::name || config_.best_by == MeanError::name;
  return is_error ? -found->second : found->second;
}

bool Trainer::is_out_of_patience() const {
  return config_.patience > 0 && state_.evaluations_since_best >= config_.patience;
}

bool Trainer::end_epoch(const std::function<bool()>& stop) {
  progress_.pause();
  if (!evaluation_) evaluation_ = evaluator_.run(stop);
  if (!evaluation_) {  // stopped inside it: a resume begins with it
    save("last.h5");
    return false;
  }
  const Evaluation& result = *evaluation_;
  if (!std::isfinite(result.loss)) fail_non_finite("the test loss", state_.step);
  const std::int64_t epoch = (state_.step - 1) / state_.steps_per_epoch + 1;
  std::string line = fmt::format("epoch {} {}", epoch, to_string(result));
  Figures figures{.epoch = epoch,
                  .step = state_.step,
                  .loss = result.loss,
                  .accuracy = result.accuracy,
                  .rate = optimizer_.schedule().rate(state_.step - 1)};
  for (const auto& [name, value] : result.metrics) {
    line += fmt::format(" {} {:.4f}", name, value);
    figures.metrics.push_back(value);
  }
  if (record_) record_->evaluation(figures);
  progress_.line(line);
  optimizer_.schedule().observe(config_.schedule.maximizes() ? result.accuracy : result.loss);
  state_.evaluated = state_.step;
  const bool is_best = score(result) > state_.best_score;
  if (is_best) state_.best_score = score(result);
  state_.evaluations_since_best = is_best ? 0 : state_.evaluations_since_best + 1;
  if (is_best) save("best.h5");  // before last.h5, which says that it is there
  save("last.h5");
  write_report();
  progress_.resume();
  if (is_out_of_patience())
    progress_.line(fmt::format("no better {} in {} evaluations: the run ends", config_.best_by, config_.patience));
  return true;
}

void Trainer::write_report() const {
  if (!writes()) return;
  write_text(path("report.html"), report_html({.run = options_.run,
                                               .config = config_,
                                               .model = model_,
                                               .test = *data_.test,
                                               .evaluation = *evaluation_,
                                               .summary = summary(),
                                               .step = state_.step,
                                               .total_steps = total_steps_,
                                               .is_done = state_.step == total_steps_ || is_out_of_patience()}));
}

Evaluation Trainer::evaluate() {
  if (!evaluation_) evaluation_ = evaluator_.run();
  return *evaluation_;
}

void Trainer::save(const char* file) {
  if (!writes()) return;
  read_sums();
  // Rows that a checkpoint counts are durable before it is.
  record_->sync();
  state_.metrics_bytes = record_->metrics_bytes();
  Checkpoint checkpoint = take_snapshot(config_, model_, optimizer_, state_, data_);
  if (averages_) checkpoint.ema = averages_->arrays();
  if (const std::string array = non_finite_array(checkpoint); !array.empty()) fail_non_finite(array, state_.step);
  save_checkpoint(checkpoint, path(file));
  saved_ = path(file).string();
}

}  // namespace nixie
