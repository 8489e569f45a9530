// Optimizer: applies an update rule to a model's parameters, with groups, clipping and a schedule.
//
//   Optimizer optimizer(model.parameters(), {.rule = Sgd{.momentum = 0.9}, .schedule = CosineRate{.rate = 0.1}},
//                       {.steps_per_epoch = 469, .epochs = 5});
//   optimizer.minimize(loss);      // in a Step's body
#pragma once

#include <map>
#include <optional>

#include "nixie/core/state/autograd.h"
#include "nixie/optimizers/loss_scale.h"
#include "nixie/optimizers/rules.h"
#include "nixie/optimizers/schedule.h"

namespace nixie {

/// Parameters with their own options, selected by name and rank.
struct ParameterGroup {
  std::string match = "*";                     ///< matches the full name; * matches any text
  int max_rank = 100;                          ///< 1: biases and parameters of normalisation layers
  double rate = 1;                             ///< factor of the learning rate; 0 freezes the parameters
  double weight_decay = 1;                     ///< factor of the rule's weight decay
  std::optional<AnyOptimizer> optimizer = {};  ///< in place of the run's rule
  std::optional<AnySchedule> schedule = {};    ///< in place of the run's schedule; no plateau
  std::string format = "";                     ///< the format that an update rounds them to; "": their own type
  std::string rounding = "nearest";            ///< how it rounds

  static constexpr const char* name = "group";
  static constexpr auto fields() {
    return field_list(field("match", &ParameterGroup::match, "full names of its parameters; * matches any text"),
                      field("max_rank", &ParameterGroup::max_rank, "largest rank of its parameters", {0}),
                      field("rate", &ParameterGroup::rate, "factor of the learning rate, 0 = frozen", {0}),
                      field("weight_decay", &ParameterGroup::weight_decay, "factor of the weight decay", {0}),
                      field("optimizer", &ParameterGroup::optimizer, "its own update rule; null = the run's"),
                      field("schedule", &ParameterGroup::schedule,
                            "its own learning rate over the run, no plateau; null = the run's"),
                      field("format", &ParameterGroup::format,
                            "the number format that updates round its parameters to (docs/numerics.md); \"\" = the "
                            "type they are stored in"),
                      field("rounding", &ParameterGroup::rounding,
                            "how updates round to it; stochastic loses no small update in the mean",
                            one_of("nearest toward_zero stochastic")));
  }
  bool holds(const Variable& parameter) const;
};
std::string field_text(const ParameterGroup& group);

struct OptimizerOptions {
  AnyOptimizer rule = {};
  std::optional<AnySchedule> schedule = {};  ///< none: constant, at the rule's usual rate
  std::vector<std::string> freeze = {};      ///< full names of parameters that stay as they are; * matches any text
  std::vector<ParameterGroup> groups = {};   ///< the first that matches a parameter counts
  double clip_value = 0;                     ///< largest gradient element, 0 = no limit; applied first
  double clip_norm = 0;                      ///< largest norm of all gradients together, 0 = no limit
  LossScaleOptions loss_scale = {};
};

class Optimizer {
 public:
  /// For the trainable parameters of a collection. Throws if an option is out of range, or a group or a name
  /// matches nothing.
  Optimizer(const Parameters& parameters, const OptimizerOptions& options, const RunLength& run = {});
  Optimizer(const Optimizer&) = default;  // no move, so that an Optimizer always has its rules; copies share the state
  Optimizer& operator=(const Optimizer&) = default;

  /// One step of descent: computes the gradients, with the precision's loss scale, and calls `update`. Call it in a
  /// Step's body.
  void minimize(const Tensor& loss) const;

  // The parts of `minimize`, for gradients that are changed or accumulated in between.
  /// The loss to pass to `gradients`; `update` removes the scale.
  Tensor scaled(const Tensor& loss) const { return loss_scale_.scaled(loss); }
  /// Clips the gradients and sets the parameters, the buffers and the counter. `step` (i32 scalar, from 0) is the input
  /// of the schedule, by default the number of updates so far. `rate_factor` (f32 scalar) multiplies the schedule's
  /// rate. Throws for a parameter that the optimizer was not made for.
  void update(const std::vector<Gradient>& gradients, const Tensor& step,
              const std::optional<Tensor>& rate_factor = std::nullopt) const;
  void update(const std::vector<Gradient>& gradients) const;

  /// The parameters that it changes: all trainable ones except those that freeze or a group with rate 0 holds.
  const std::vector<Variable>& parameters() const { return parameters_; }
  /// The number of updates so far, an i32 scalar.
  const Variable& count() const { return count_; }
  const OptimizerOptions& options() const { return options_; }
  const Schedule& schedule() const { return schedule_; }
  const LossScale& loss_scale() const { return loss_scale_; }
  /// Buffers by name PARAMETER.BUFFER (`features.0.weight.momentum_buffer`), and the state shared by all parameters:
  /// `shared.step` (i32, updates so far), `shared.plateau_...`, `shared.loss_scale` and its counters. PARAMETER ends at
  /// the last dot.
  const Parameters& state() const { return state_; }

 private:
  struct Entry {
    Update update;
    double rate_factor = 1;
    std::size_t schedule = 0;  // 0: the run's; else 1 + that of group_schedules_
    std::function<Tensor(const Variable& w, const Tensor& value)> rounded = {};
  };
  OptimizerOptions options_;
  Parameters state_;
  Schedule schedule_;
  std::vector<Schedule> group_schedules_;
  LossScale loss_scale_;
  Variable count_;
  std::map<const VariableState*, Entry> entries_;
  std::vector<Variable> parameters_;
};

/// The norm of all gradients together (root of the sum of squares), f32.
Tensor global_norm(const std::vector<Gradient>& gradients);
/// Elements limited to [-limit, limit].
std::vector<Gradient> clip_by_value(const std::vector<Gradient>& gradients, double limit);
/// All gradients times min(1, limit / (norm + 1e-6)), as PyTorch's clip_grad_norm_.
std::vector<Gradient> clip_by_norm(const std::vector<Gradient>& gradients, double limit);

}  // namespace nixie
