// TrainStep: one graph for the batch that ends a step, and another for those before it.
#include "nixie/apps/trainer/train_step.h"

#include <cmath>

#include "nixie/apps/trainer/ranks/shards.h"
#include "nixie/optimizers/loss_scale.h"

namespace nixie {
namespace {

Variable scalar(const char* name, Dtype dtype) { return Variable(name, Array(dtype, Shape{}), false); }

std::vector<Variable> zeros_like(const std::vector<Variable>& parameters) {
  std::vector<Variable> zeros;
  for (const Variable& parameter : parameters)
    zeros.emplace_back("accumulated." + parameter.name(), Array(Dtype::f32, parameter.shape()), false);
  return zeros;
}

/// The values that a model's forward pass sets, each with a place for a copy.
std::vector<std::pair<Variable, Variable>> buffers_of(const Model& model) {
  std::vector<std::pair<Variable, Variable>> buffers;
  for (const Variable& value : model.parameters().all())
    if (!value.trainable())
      buffers.emplace_back(value, Variable("before." + value.name(), Array(value.dtype(), value.shape()), false));
  return buffers;
}

Tensor squared_norm(const std::vector<Gradient>& slopes) { return square(global_norm(slopes)); }

}  // namespace

double noise_scale(const StepSums& sums, std::int64_t batch, std::int64_t accumulate) {
  const auto small = static_cast<double>(batch), large = small * static_cast<double>(accumulate);
  const double slope = (large * sums.step_norms - small * sums.batch_norms) / (large - small),
               noise = (sums.batch_norms - sums.step_norms) / (1 / small - 1 / large);
  return slope > 0 ? noise / slope : INFINITY;
}

TrainStep::TrainStep(Backend& backend, const TrainConfig& config, const Dataset& data, const Model& model,
                     const Optimizer& optimizer, const Averages* averages, Statistics* statistics, const World& world)
    : config_(config),
      data_(data),
      objective_(config, data.target()),
      model_(model),
      optimizer_(optimizer),
      averages_(averages),
      statistics_(statistics),
      world_(world),
      shards_(config, world),
      mixing_(config.mixing, config.seed, world),
      step_(scalar("step", Dtype::i32)),
      loss_sum_(scalar("loss_sum", Dtype::f32)),
      accuracy_sum_(scalar("accuracy_sum", Dtype::f32)),
      non_finite_(scalar("non_finite", Dtype::i32)),
      skipped_(scalar("skipped", Dtype::i32)),
      batch_norms_(scalar("batch_norms", Dtype::f32)),
      step_norms_(scalar("step_norms", Dtype::f32)),
      part_norms_(scalar("part_norms", Dtype::f32)),
      rate_factor_("rate_factor", Array::from(std::vector<float>{1}, {}), false),
      part_(scalar("part", Dtype::i32)),
      part_weight_(scalar("part_weight", Dtype::f32)),
      part_counted_(scalar("part_counted", Dtype::f32)),
      part_loss_(scalar("part_loss", Dtype::f32)),
      part_accuracy_(scalar("part_accuracy", Dtype::f32)),
      part_slopes_(config.accumulate > 1 ? zeros_like(optimizer.parameters()) : std::vector<Variable>{}),
      buffers_(config.accumulate > 1 ? buffers_of(model) : std::vector<std::pair<Variable, Variable>>{}),
      backend_(backend),
      add_(
          backend, [this](const Inputs& in) { return add_body(in); }, config.policy()) {}

Measured TrainStep::measured_after(std::int64_t step) const {
  return statistics_ ? nixie::measured_after(config_.statistics, step) : Measured::nothing;
}

Step& TrainStep::update_after(std::int64_t step) {
  const Measured what = measured_after(step);
  const auto body = [this, what](const Inputs& in) { return update_body(in, what); };
  return updates_.try_emplace(what, backend_, body, config_.policy()).first->second;
}

void TrainStep::operator()(const std::function<const Batch&()>& next, std::int64_t step) {
  const std::int64_t first = step * config_.accumulate;
  for (std::int64_t part = 0; part + 1 < config_.accumulate; ++part) add_(inputs_of(next(), first + part));
  update_after(step)(inputs_of(next(), first + config_.accumulate - 1));
  has_run_.insert(measured_after(step));
}

void TrainStep::forget_parts() {
  if (part_.array().item() == 0) return;
  for (const auto& [buffer, before] : buffers_) buffer.set(before.array());
  begin_parts();
}

void TrainStep::begin_parts() {
  for (const Variable& slope : part_slopes_) slope.set(0.0);
  part_.set(0);
  if (config_.noise_scale) part_norms_.set(0.0);
  part_weight_.set(0.0);
  part_counted_.set(0.0);
  part_loss_.set(0.0);
  part_accuracy_.set(0.0);
}

std::map<std::string, Tensor> TrainStep::inputs_of(const Batch& batch, std::int64_t draw) const {
  std::map<std::string, Tensor> inputs = {{"images", batch.images}, {"labels", batch.labels}};
  if (mixing_.is_on()) inputs.emplace("mixing", mixing_.draw(draw, model_.input_shape()[1], model_.input_shape()[2]));
  return inputs;
}

void TrainStep::trace() {
  if (config_.accumulate > 1) add_.graph(placeholders());
  graph();
}

void TrainStep::compile() {
  if (config_.accumulate > 1) add_.plan(placeholders());
  plan();
}

void TrainStep::store_variables() {
  if (config_.accumulate > 1) add_.store_variables(placeholders());
  update_after(0).store_variables(placeholders());
}

std::map<std::string, Tensor> TrainStep::placeholders() const {
  std::map<std::string, Tensor> inputs = batch_placeholders(data_, world_.share_of(config_.data.batch(), "batch"));
  if (mixing_.is_on()) inputs.emplace("mixing", placeholder({6}));
  return inputs;
}

TrainStep::Result TrainStep::forward(const Inputs& in, std::int64_t share,
                                     const std::function<void(const Tensor&)>& observe) const {
  // Each batch of a step draws other random numbers.
  const Tensor now = step_, draw = config_.accumulate > 1 ? now * config_.accumulate + part_ : now;
  Pass pass{.training = true, .step = draw, .seed = config_.seed, .share = share, .observe = observe};
  const Tensor images = data_.pixels(in["images"]);
  const auto loss_of = [&](const AnyLoss& loss, const Tensor& output) {
    const Tensor target = objective_.target(output, images, in["labels"]);
    return mixing_.is_on() ? mixing_.loss(loss, output, target, in["mixing"]) : loss(output, target);
  };
  Tensor others;
  pass.auxiliary = [&](const Tensor& output, const AuxiliaryLoss& of) {
    const Tensor loss = of.weight * loss_of(of.loss.value_or(config_.loss), output);
    others = others.has_value() ? others + loss : loss;
  };
  const Tensor output = at_key(config_.places, "model", [&] {
    return model_(mixing_.is_on() ? mixing_.images(images, in["mixing"]) : images, pass);
  });
  const Tensor own = at_key(config_.places, "loss", [&] { return loss_of(config_.loss, output); });
  const Tensor loss = others.has_value() ? own + others : own;
  const Tensor target = objective_.target(output, images, in["labels"]);
  Result result{loss, objective_.accuracy_of(output, target), {}, {}, {}, {}};
  if (parts() == 1) return result;
  const Tensor weights = objective_.loss_weights(target), counts = objective_.weights(target);
  if (weights.has_value()) {
    result.weight = mean(weights);
    // Where all labels weigh nothing, the loss is a sum: of what label smoothing gives.
    result.share = where(result.weight > 0, result.weight, 1.0 / static_cast<double>(weights.shape().size()));
  }
  if (counts.has_value()) result.counted = mean(counts);
  return result;
}

TrainStep::Result TrainStep::run_shard(const Inputs& in, std::int64_t shard) const {
  std::map<std::string, Tensor> own{{"images", shards_.rows(in["images"], shard)},
                                    {"labels", shards_.rows(in["labels"], shard)}};
  if (mixing_.is_on()) own.emplace("mixing", in["mixing"]);
  Result result = forward(Inputs(std::move(own)), shards_.number(shard));
  if (result.weight.has_value()) result.loss = result.loss * result.share;
  if (result.counted.has_value()) result.accuracy = result.accuracy * result.counted;
  result.slopes = gradients(optimizer_.scaled(result.loss), optimizer_.parameters());
  return result;
}

TrainStep::Result TrainStep::run(const Inputs& in) const {
  if (shards_.of_batch() == 1) return run_shard(in, 0);
  // Each shard begins with the same running statistics; the new ones are the mean of the shards'.
  const std::vector<Variable> values = model_.parameters().all();
  const std::vector<Tensor> before(values.begin(), values.end());
  std::vector<Result> results;
  std::vector<std::vector<Tensor>> after(values.size());
  std::vector<Tensor> begun = before;
  std::vector<std::vector<Shards::Slope>> slopes(optimizer_.parameters().size());
  for (std::int64_t shard = 0; shard < shards_.of_rank(); ++shard) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (shards_.are_ordered() && !values[i].trainable()) values[i].set(begun[i] = shards_.apart(before[i]));
    results.push_back(run_shard(in, shard));
    for (std::size_t i = slopes.size(); i-- > 0;) slopes[i].push_back(shards_.slope(results.back().slopes[i].value));
    for (Tensor Result::*number : {&Result::loss, &Result::accuracy, &Result::weight, &Result::counted})
      if ((results.back().*number).has_value()) results.back().*number = shards_.apart(results.back().*number);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Tensor now = values[i];
      if (now.id() != begun[i].id()) after[i].push_back(shards_.apart(now));
      if (now.id() != before[i].id()) values[i].set(before[i]);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!after[i].empty())
      values[i].set(is_floating(values[i].dtype())
                        ? shards_.sum(after[i]) * (1 / static_cast<double>(shards_.of_batch()))
                        : after[i][0]);
  const auto sum_of = [&](const auto& member) {
    std::vector<Tensor> parts;
    for (Result& result : results) parts.push_back(member(result));
    return parts[0].has_value() ? Shards::own_sum(std::move(parts)) : Tensor{};
  };
  Result sum = results[0];
  for (Tensor Result::*number : {&Result::loss, &Result::accuracy, &Result::weight, &Result::counted})
    sum.*number = sum_of([&](const Result& result) { return result.*number; });
  // The last layers' gradients are the first that the backward pass makes.
  for (std::size_t i = shards_.are_ordered() ? slopes.size() : 0; i-- > 0;)
    sum.slopes[i].value = shards_.sum(slopes[i]);
  return sum;
}

NonFinite TrainStep::first_non_finite(const Batch& batch, std::int64_t step, std::int64_t part) {
  step_.set(static_cast<std::int32_t>(step));
  part_.set(static_cast<std::int32_t>(part));
  const NonFinite found = nixie::first_non_finite(
      backend_, config_.policy(), batch, "the training half", inputs_of(batch, step * config_.accumulate + part),
      [this](const Inputs& in, const auto& observe) { return forward(in, world_.rank(), observe).loss; });
  part_.set(0);
  return found;
}

Tensor TrainStep::norm_of_batch(const Result& result) {
  const Tensor norm = squared_norm(result.slopes);
  return result.weight.has_value() ? where(result.weight > 0, norm / square(result.weight), 0) : norm;
}

Outputs TrainStep::add_body(const Inputs& in) {
  std::vector<Tensor> before;
  for (const auto& [buffer, copy] : buffers_) before.push_back(where(part_ == 0, buffer, copy));
  Result result = run(in);
  for (std::size_t i = 0; i < result.slopes.size(); ++i)
    part_slopes_[i].set(part_slopes_[i] + cast(result.slopes[i].value, Dtype::f32));
  if (config_.noise_scale) part_norms_.set(part_norms_ + norm_of_batch(result));
  if (skips()) {
    // The step as a whole is then skipped: its loss is no number.
    const Tensor own = logical_and(is_finite(result.loss), all_finite(result.slopes)),
                 ok = all_reduce(world_, cast(own, Dtype::i32)) == world_.size();
    Trace::rollback_unless(ok);
    result.loss = where(ok, result.loss, NAN);
  }
  for (std::size_t i = 0; i < before.size(); ++i) buffers_[i].second.set(before[i]);
  if (result.weight.has_value()) part_weight_.set(part_weight_ + result.weight);
  if (result.counted.has_value()) part_counted_.set(part_counted_ + result.counted);
  part_loss_.set(part_loss_ + result.loss);
  part_accuracy_.set(part_accuracy_ + result.accuracy);
  part_.set(part_ + 1);
  return {};
}

void TrainStep::complete(Result& result) {
  Tensor norms = config_.noise_scale ? norm_of_batch(result) : Tensor{};
  std::vector<Tensor> sums;
  for (const Gradient& slope : result.slopes) sums.push_back(slope.value);
  if (config_.accumulate > 1) {
    const auto add = [](Tensor& last, const Variable& parts) {
      if (last.has_value()) last = parts + last;
    };
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = part_slopes_[i] + cast(sums[i], Dtype::f32);
    add(result.loss, part_loss_), add(result.accuracy, part_accuracy_), add(norms, part_norms_);
    add(result.weight, part_weight_), add(result.counted, part_counted_);
  }
  for (std::size_t i = shards_.are_ordered() ? 0 : sums.size(); i-- > 0;)  // the last layers' first, again
    sums[i] = gradient_sum(world_, sums[i], config_.policy());
  for (Tensor* number : {&result.loss, &result.accuracy, &result.weight, &result.counted, &norms})
    if (number->has_value()) *number = all_reduce(shards_.world(), *number);
  const double each = 1 / static_cast<double>(parts());
  const auto share_of = [&](const Tensor& total) {
    return total.has_value() ? where(total > 0, 1 / total, 0) : Tensor(each);  // 0: no label counts
  };
  const Tensor share = share_of(result.weight);
  result.loss = result.loss * share;
  result.accuracy = result.accuracy * share_of(result.counted);
  for (std::size_t i = 0; i < sums.size(); ++i)
    result.slopes[i].value = cast(sums[i] * share, result.slopes[i].value.dtype());
  if (!config_.noise_scale) return;
  batch_norms_.set(batch_norms_ + norms * each);
  step_norms_.set(step_norms_ + squared_norm(result.slopes));
}

Outputs TrainStep::update_body(const Inputs& in, Measured what) {
  const bool measures = what != Measured::nothing;
  const OperandScope scope(measures ? statistics_->operands(what) : OperandScope::rule());
  const std::vector<Tensor> before(optimizer_.parameters().begin(), optimizer_.parameters().end());
  const Tensor now = step_;
  Result result = run(in);
  if (parts() > 1) complete(result);
  const auto& [loss, accuracy, slopes, weight, loss_share, counted] = result;
  if (config_.non_finite == "roll_back")  // others need no factor, nor the multiplication
    optimizer_.update(slopes, now, rate_factor_);
  else
    optimizer_.update(slopes, now);
  if (averages_) averages_->update(now);
  if (skips()) {
    // A dynamic loss scale looks at the gradients itself.
    const Tensor good = is_finite(loss),
                 ok = optimizer_.loss_scale().is_dynamic() ? good : logical_and(good, all_finite(slopes));
    Trace::rollback_unless(ok);
    count(now, where(ok, loss, 0), where(ok, accuracy, 0));
    skipped_.set(skipped_ + (1 - cast(ok, Dtype::i32)));
  } else {
    count(now, loss, accuracy);
  }
  if (config_.accumulate > 1) begin_parts();  // even where what was set above is rolled back
  if (measures) {                             // the same
    for (std::size_t i = 0; i < before.size(); ++i) statistics_->observe_update(optimizer_.parameters()[i], before[i]);
    statistics_->record(now);
  }
  return {};
}

void TrainStep::count(const Tensor& now, const Tensor& loss, const Tensor& accuracy) {
  loss_sum_.set(loss_sum_ + loss);
  accuracy_sum_.set(accuracy_sum_ + accuracy);
  // The step of the first loss that is no number, found on the device: the host reads it with the sums.
  non_finite_.set(where(logical_and(non_finite_ == 0, logical_not(is_finite(loss))), now + 1, non_finite_));
  step_.set(now + 1);
}

StepSums TrainStep::sums() const {
  return {.loss = loss_sum_.array().item(),
          .accuracy = accuracy_sum_.array().item(),
          .skipped = static_cast<std::int64_t>(skipped_.array().item()),
          .first_non_finite = static_cast<std::int64_t>(non_finite_.array().item()),
          .batch_norms = batch_norms_.array().item(),
          .step_norms = step_norms_.array().item()};
}

void TrainStep::clear_sums() {
  skipped_.set(0);
  batch_norms_.set(0.0);
  step_norms_.set(0.0);
  loss_sum_.set(0.0);
  accuracy_sum_.set(0.0);
  if (statistics_) statistics_->clear();
}

void TrainStep::set(const RunState& state) {
  step_.set(static_cast<std::int32_t>(state.step));
  loss_sum_.set(state.loss_sum);
  accuracy_sum_.set(state.accuracy_sum);
  skipped_.set(static_cast<std::int32_t>(state.skipped));
  non_finite_.set(0);
  rate_factor_.set(state.rate_factor());
  if (statistics_) statistics_->clear();
}

}  // namespace nixie
