// Groups, clipping, and the order of things in an update.
#include "nixie/optimizers/optimizer.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "nixie/core/base/random.h"
#include "nixie/core/base/wildcard.h"
#include "nixie/core/ops/formats.h"

namespace nixie {
namespace {

std::string group_name(std::size_t i) { return "parameter_groups." + std::to_string(i); }

/// Numbers for each element. Filters are stored with their channels last and take theirs in that order, so that
/// neighbours in memory share a block of the generator's four.
Tensor drawn(const Shape& shape, std::uint64_t stream, const Variable& count) {
  if (shape.rank() < 3 || shape.size() == shape[0] * shape[1]) return uniform(shape, stream, count);
  std::vector<std::int64_t> sizes = shape.sizes();
  std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return permute(uniform(Shape(sizes), stream, count), order);
}

/// The rounding of a group's updates, drawn anew at each; empty if a parameter is kept as its type holds it.
std::function<Tensor(const Variable& w, const Tensor& value)> rounding_of(const ParameterGroup& group, Dtype dtype,
                                                                          std::uint64_t seed, const Variable& count) {
  const Rounding rounding = rounding_named(group.rounding);
  if (group.format.empty() && rounding == Rounding::nearest) return {};
  const bool is_half = dtype == Dtype::f16 || dtype == Dtype::bf16;
  check(!group.format.empty() || is_half, "rounding is ", group.rounding, " and its parameters are ", dtype,
        ", which takes them as they are; set format, or precision fp16_pure or bf16_pure");
  const Format format = format_named(group.format.empty() ? to_string(dtype) : std::string_view(group.format));
  return [=](const Variable& w, const Tensor& value) {
    const Tensor random = rounding == Rounding::stochastic
                              ? drawn(w.shape(), random_stream(seed, w.name() + "/update"), count)
                              : Tensor{};
    return quantized(value, format, rounding, random);
  };
}

/// The end of a message about a name that fits none: `; the parameters are fc.weight, fc.bias`
std::string names_text(const Parameters& parameters) {
  constexpr std::size_t kShown = 6;
  const std::vector<Variable> all = parameters.trainable();
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + all[i].name();
  if (all.empty()) return {};
  return "; the parameters are " + text + (all.size() > kShown ? fmt::format(" ... ({} in all)", all.size()) : "");
}

}  // namespace

bool ParameterGroup::holds(const Variable& parameter) const {
  return parameter.shape().rank() <= max_rank && matches_wildcard(parameter.name(), match);
}
std::string field_text(const ParameterGroup& group) { return fields_text(group); }

Optimizer::Optimizer(const Parameters& parameters, const OptimizerOptions& options, const RunLength& run)
    : options_(options),
      state_(parameters.seed()),
      schedule_(options.schedule.value_or(ConstantRate{.rate = options.rule.usual_rate()}), run,
                state_.scope("shared")),
      loss_scale_(options.loss_scale, state_.scope("shared")),
      count_(state_.scope("shared").number("step", 0, Dtype::i32,
                                           {.most = std::numeric_limits<std::int32_t>::max(), .counts_steps = true})) {
  {
    Scope scope("optimizer", options.rule.kind());
    check(options.clip_value >= 0 && options.clip_norm >= 0, "clip_value is ", options.clip_value, " and clip_norm ",
          options.clip_norm, ", expected numbers from 0 up");
  }
  std::vector<int> held(options.groups.size(), 0), frozen(options.freeze.size(), 0);
  std::vector<std::size_t> schedules;  // of each group, as in Entry
  for (std::size_t i = 0; i < options.groups.size(); ++i) {
    const ParameterGroup& group = options.groups[i];
    Scope scope(group_name(i));
    check_fields(group);
    if (group.schedule) {
      check(group.schedule->kind() != PlateauRate::name,
            "its schedule is a plateau, which only the whole run can have");
      group_schedules_.emplace_back(*group.schedule, run, state_.scope("shared"));
    }
    schedules.push_back(group.schedule ? group_schedules_.size() : 0);
  }
  for (const Variable& w : parameters.trainable()) {
    std::size_t chosen = options.groups.size();
    for (std::size_t i = options.groups.size(); i-- > 0;) {
      if (!options.groups[i].holds(w)) continue;
      chosen = i;
      ++held[i];
    }
    bool is_frozen = false;
    for (std::size_t i = 0; i < options.freeze.size(); ++i) {
      if (!matches_wildcard(w.name(), options.freeze[i])) continue;
      is_frozen = true;
      ++frozen[i];
    }
    const bool has_group = chosen < options.groups.size();
    const ParameterGroup group = has_group ? options.groups[chosen] : ParameterGroup{};
    if (is_frozen || group.rate == 0) {
      entries_[w.state().get()] = {};
      continue;
    }
    parameters_.push_back(w);
    Parameters buffers = state_.scope(w.name());
    std::function<Tensor(const Variable&, const Tensor&)> rounded;
    if (has_group) {
      const Scope of_group(group_name(chosen));
      rounded = rounding_of(group, w.dtype(), parameters.seed(), count_);
    }
    Scope scope(group.optimizer ? group_name(chosen) + ".optimizer" : "optimizer",
                group.optimizer ? "" : options.rule.kind());
    Entry entry{group.optimizer.value_or(options.rule).build(w, buffers, group.weight_decay), group.rate,
                has_group ? schedules[chosen] : 0};
    entry.rounded = rounded;
    entries_[w.state().get()] = entry;
  }
  for (std::size_t i = 0; i < held.size(); ++i)
    check(held[i] > 0, group_name(i), ": ", options.groups[i].match, " holds no parameter", names_text(parameters));
  for (std::size_t i = 0; i < frozen.size(); ++i)
    check(frozen[i] > 0, "freeze.", i, ": ", options.freeze[i], " is the name of no parameter", names_text(parameters));
}

void Optimizer::minimize(const Tensor& loss) const { update(gradients(scaled(loss), parameters_)); }
void Optimizer::update(const std::vector<Gradient>& gradients) const { update(gradients, count_); }

void Optimizer::update(const std::vector<Gradient>& gradients, const Tensor& step,
                       const std::optional<Tensor>& rate_factor) const {
  std::vector<Gradient> clipped = loss_scale_.unscaled(gradients);
  if (options_.clip_value > 0) clipped = clip_by_value(clipped, options_.clip_value);
  if (options_.clip_norm > 0) clipped = clip_by_norm(clipped, options_.clip_norm);
  std::vector<Tensor> rates = {schedule_.rate(step)};
  for (const Schedule& schedule : group_schedules_) rates.push_back(schedule.rate(step));
  if (rate_factor)
    for (Tensor& rate : rates) rate = rate * *rate_factor;
  const Tensor count = count_ + 1;
  for (const Gradient& gradient : clipped) {
    const auto entry = entries_.find(gradient.parameter.state().get());
    check(entry != entries_.end(), "optimizer: parameter ", gradient.parameter.name(), " is not one of its own");
    const auto& [update, factor, schedule, rounded] = entry->second;
    const Tensor& rate = rates[schedule];
    if (update) update(gradient.value, {factor == 1 ? rate : rate * factor, cast(count, Dtype::f32), rounded});
  }
  count_.set(count);
  loss_scale_.finish(gradients);
}

Tensor global_norm(const std::vector<Gradient>& gradients) {
  Tensor total = 0.0;
  for (const Gradient& gradient : gradients) total += sum(square(cast(gradient.value, Dtype::f32)));
  return sqrt(total);
}

std::vector<Gradient> clip_by_value(const std::vector<Gradient>& gradients, double limit) {
  std::vector<Gradient> clipped = gradients;
  for (Gradient& gradient : clipped) gradient.value = clip(gradient.value, -limit, limit);
  return clipped;
}

std::vector<Gradient> clip_by_norm(const std::vector<Gradient>& gradients, double limit) {
  const Tensor factor = minimum(1.0, limit / (global_norm(gradients) + 1e-6));
  std::vector<Gradient> clipped = gradients;
  for (Gradient& gradient : clipped) gradient.value = gradient.value * factor;
  return clipped;
}

}  // namespace nixie
