// The training loop. All that changes on the device is a Variable; all else follows from the number of steps done.
#include "nixie/apps/trainer/trainer.h"

#include <cmath>

#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/run_folder.h"
#include "nixie/configs/parse/changes.h"
#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {
namespace {

constexpr const char* kMetricsHeader = "epoch,step,split,loss,accuracy,learning_rate";
constexpr const char* kTimingHeader = "epoch,step,seconds,images_per_second";

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

bool is_finite(const Array& array) {
  if (array.dtype() != Dtype::f32) return true;
  const std::span<const float> values = array.data<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const TrainerOptions& options)
    : config_(config),
      options_(options),
      backend_(options.backend ? options.backend : open_backend(config.backend, config.threads)),
      data_(config.data.open()),
      loader_options_(with_batch(config.loader, config.data.batch())),
      loader_(data_.train, loader_options_, config.seed, true),
      model_(config.model, input_shape(*data_.train, config.data.batch()), config.seed,
             parameter_dtype(config.policy())),
      total_steps_(config.total_steps(loader_.batches())),
      optimizer_(model_.parameters(),
                 {.rule = config.optimizer,
                  .schedule = config.schedule,
                  .groups = config.parameter_groups,
                  .clip_value = config.clip_value,
                  .clip_norm = config.clip_norm,
                  .loss_scale = loss_scale(config)},
                 {.steps_per_epoch = static_cast<double>(loader_.batches()),
                  .epochs = static_cast<double>(total_steps_) / static_cast<double>(loader_.batches())}),
      state_{.steps_per_epoch = loader_.batches()},
      step_("step", Array(Dtype::i32, Shape{}), false),
      loss_sum_("loss_sum", Array(Dtype::f32, Shape{}), false),
      accuracy_sum_("accuracy_sum", Array(Dtype::f32, Shape{}), false),
      train_step_(
          *backend_, [this](const Inputs& in) { return train_body(in); }, config.policy()),
      evaluator_(*backend_, model_, config.loss, config.metrics, data_.test, loader_options_, config.policy()),
      progress_(options.out) {
  check_classes(model_, *data_.train);
}

Outputs Trainer::train_body(const Inputs& in) {
  const Tensor now = step_;
  Pass pass{.training = true, .step = now, .seed = config_.seed};
  const Tensor output = model_(data_.train->pixels(in["images"]), pass);
  const Tensor loss = config_.loss(output, in["labels"]);
  optimizer_.update(gradients(optimizer_.scaled(loss), model_.parameters()), now);
  loss_sum_.set(loss_sum_ + loss);
  accuracy_sum_.set(accuracy_sum_ + accuracy(output, in["labels"]));
  step_.set(now + 1);
  return {};
}

std::map<std::string, Tensor> Trainer::placeholders() const {
  const std::int64_t batch = config_.data.batch();
  const Dtype stored = data_.train->bytes() ? Dtype::u8 : Dtype::f32;
  return {{"images", placeholder(input_shape(*data_.train, batch), stored)},
          {"labels", placeholder({batch}, Dtype::i32)}};
}

Graph Trainer::graph() {
  Trace trace;
  const Outputs outputs = train_body(Inputs(placeholders()));
  Graph graph{.sets = trace.sets()};
  for (const auto& [name, value] : outputs) graph.outputs.push_back(value);
  return apply_precision(simplify(graph), config_.policy());
}

const Plan& Trainer::plan() { return train_step_.plan(placeholders()); }

std::string Trainer::summary() const {
  const Parameters& parameters = model_.parameters();
  return fmt::format(
      "{}\nmodel {}: {} parameters in {} arrays, input {}, output {}\n"
      "data {}: {} training and {} test samples of {} classes, {} steps of {} per epoch, {} steps in all",
      machine_text(*backend_, config_.threads), config_.model.kind(), parameters.count(), parameters.trainable().size(),
      model_.input_shape(), model_.output_shape(), config_.data.kind(), data_.train->size(), data_.test->size(),
      data_.train->classes(), state_.steps_per_epoch, config_.data.batch(), total_steps_);
}

void Trainer::resume(const std::filesystem::path& file) {
  restore(load_snapshot(file, model_));
  saved_ = file.string();
}

void Trainer::resume() {
  const auto checkpoint =
      load_first({path("last.h5"), path("best.h5")}, model_, [&](const std::string& note) { progress_.line(note); });
  if (!checkpoint) return progress_.line("the run was not saved yet; it begins again");
  restore(*checkpoint);
  saved_ = options_.run.string();
}

void Trainer::restore(const Checkpoint& checkpoint) {
  if (!checkpoint.config.empty())  // before anything is refused: it may say why
    for (const std::string& change : config_changes(checkpoint.config, config_text(config_)))
      progress_.line("changed since the checkpoint: " + change);
  state_ = restore_snapshot(checkpoint, config_, model_, optimizer_, state_.steps_per_epoch);
  step_.set(static_cast<std::int32_t>(state_.step));
  loss_sum_.set(state_.loss_sum);
  accuracy_sum_.set(state_.accuracy_sum);
  evaluation_.reset();
  progress_.line(fmt::format("resumed after step {}", state_.step));
}

void Trainer::open_tables() {
  if (!writes()) return;
  remove_stale_temporaries(options_.run);  // of a process that was killed while it saved
  write_text(path("config.yaml"), config_text(config_));
  metrics_.emplace(path("metrics.csv"), kMetricsHeader, state_.step);
  timing_.emplace(path("timing.csv"), kTimingHeader, state_.step);
}

bool Trainer::train(const std::function<bool()>& stop) {
  open_tables();
  progress_.start(state_.step, total_steps_, state_.steps_per_epoch, config_.data.batch());
  loader_.start({.epoch = state_.step / state_.steps_per_epoch, .batch = state_.step % state_.steps_per_epoch});
  while (state_.step < total_steps_) {
    const Batch* batch = loader_.next();
    if (!batch) continue;  // between two epochs
    train_on(*batch);
    const bool is_epoch_end = state_.step % state_.steps_per_epoch == 0 || state_.step == total_steps_;
    if (is_epoch_end || state_.step % config_.log_every == 0) log_interval();
    if (is_epoch_end) end_epoch();
    const bool is_stopped = stop && stop() && state_.step < total_steps_;
    const bool is_due = config_.save_every > 0 && state_.step % config_.save_every == 0;
    if (!is_epoch_end && (is_stopped || is_due)) save("last.h5");
    if (is_stopped) return false;
  }
  return true;
}

void Trainer::train_on(const Batch& batch) {
  train_step_({{"images", batch.images}, {"labels", batch.labels}});
  ++state_.step;
  evaluation_.reset();
  progress_.step(state_.step);
}

void Trainer::read_sums() {
  state_.loss_sum = loss_sum_.array().item();
  state_.accuracy_sum = accuracy_sum_.array().item();
  if (!std::isfinite(state_.loss_sum)) fail_non_finite("the loss");
}

void Trainer::fail_non_finite(const std::string& what) const {
  fail(Fault::non_finite, what, " is not finite at step ", state_.step, " (the last good log row is of step ",
       state_.logged, ", the last good checkpoint ", saved_.empty() ? "none" : saved_,
       "); try a smaller rate, a warm-up or clip_norm");
}

void Trainer::log_interval() {
  read_sums();
  const double steps = static_cast<double>(state_.step - state_.logged);
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
  if (metrics_) {
    metrics_->append(
        fmt::format("{},{},train,{},{},{}", epoch + 1, state_.step, interval.loss, interval.accuracy, interval.rate));
    timing_->append(
        fmt::format("{},{},{:.3f},{:.1f}", epoch + 1, state_.step, progress_.seconds(), progress_.images_per_second()));
  }
  progress_.interval(interval);
  state_.logged = state_.step;
  state_.loss_sum = state_.accuracy_sum = 0;
  loss_sum_.set(0.0);
  accuracy_sum_.set(0.0);
}

void Trainer::end_epoch() {
  progress_.pause();
  const Evaluation result = evaluate();
  if (!std::isfinite(result.loss)) fail_non_finite("the test loss");
  const std::int64_t epoch = (state_.step - 1) / state_.steps_per_epoch + 1;
  if (metrics_)
    metrics_->append(fmt::format("{},{},test,{},{},{}", epoch, state_.step, result.loss, result.accuracy,
                                 optimizer_.schedule().rate(state_.step - 1)));
  std::string line = fmt::format("epoch {} {}", epoch, to_string(result));
  for (const auto& [name, value] : result.metrics) line += fmt::format(" {} {:.4f}", name, value);
  progress_.line(line);
  optimizer_.schedule().observe(config_.schedule.maximizes() ? result.accuracy : result.loss);
  const bool is_best = result.accuracy > state_.best_accuracy;
  if (is_best) state_.best_accuracy = result.accuracy;
  if (is_best) save("best.h5");  // before last.h5, which says that it is there
  save("last.h5");
  progress_.resume();
}

Evaluation Trainer::evaluate() {
  if (!evaluation_) evaluation_ = evaluator_.run();
  return *evaluation_;
}

void Trainer::save(const char* file) {
  if (!writes()) return;
  read_sums();
  const Checkpoint checkpoint = take_snapshot(config_, model_, optimizer_, state_, *data_.train);
  for (const auto& [name, array] : checkpoint.model)
    if (!is_finite(array)) fail_non_finite(name);
  save_checkpoint(checkpoint, path(file));
  saved_ = path(file).string();
}

}  // namespace nixie
