// Groups, clipping, and the order of things in an update.
#include "nixie/optimizers/optimizer.h"

#include <limits>

namespace nixie {
namespace {

// Whether a text matches a pattern; * matches any text. A part between two stars may match where it is first found:
// the parts behind it have the most room then, so no other place needs a trial.
bool matches(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  const std::size_t last = pattern.rfind('*');
  const std::string_view front = pattern.substr(0, star), back = pattern.substr(last + 1);
  if (text.size() < front.size() + back.size() || !text.starts_with(front) || !text.ends_with(back)) return false;
  text = text.substr(front.size(), text.size() - front.size() - back.size());
  for (std::size_t at = star; at < last;) {
    const std::size_t next = pattern.find('*', at + 1);
    const std::string_view part = pattern.substr(at + 1, next - at - 1);
    const std::size_t found = text.find(part);
    if (found == std::string_view::npos) return false;
    text.remove_prefix(found + part.size());
    at = next;
  }
  return true;
}

std::string group_name(std::size_t i) { return "parameter_groups." + std::to_string(i); }

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
  return parameter.shape().rank() <= max_rank && matches(parameter.name(), match);
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
      if (!matches(w.name(), options.freeze[i])) continue;
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
    Scope scope(group.optimizer ? group_name(chosen) + ".optimizer" : "optimizer",
                group.optimizer ? "" : options.rule.kind());
    entries_[w.state().get()] = {group.optimizer.value_or(options.rule).build(w, buffers, group.weight_decay),
                                 group.rate, has_group ? schedules[chosen] : 0};
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
    const auto& [update, factor, schedule] = entry->second;
    const Tensor& rate = rates[schedule];
    if (update) update(gradient.value, {factor == 1 ? rate : rate * factor, cast(count, Dtype::f32)});
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
