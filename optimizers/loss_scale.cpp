// The scale's arithmetic is part of the step's graph: nothing waits for the host.
#include "nixie/optimizers/loss_scale.h"

#include <algorithm>
#include <limits>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

constexpr double kLeast = 0x1p-14, kMost = 0x1p24;  // no scale below or above helps
constexpr double kMostSteps = std::numeric_limits<std::int32_t>::max();

}  // namespace

Tensor all_finite(const std::vector<Gradient>& gradients) {
  Tensor ok = 1;
  for (const Gradient& gradient : gradients) ok = logical_and(ok, all(is_finite(gradient.value)));
  return reshape(ok, {});
}

LossScale::LossScale(const LossScaleOptions& options, const Parameters& state) : options_(options) {
  if (options.scale != 0) check_value("loss_scale", options.scale, kLossScales);
  check_value("the loss scale's initial", options.initial, kLossScales);
  check_value("the loss scale's growth_interval", options.growth_interval, {1});
  if (options.scale > 0) return;
  scale_ = state.number("loss_scale", static_cast<float>(options.initial), Dtype::f32,
                        {std::min(kLeast, options.initial), std::max(kMost, options.initial)});
  good_ = state.number("good_steps", 0, Dtype::i32, {.most = options.growth_interval - 1.0, .counts_steps = true});
  skipped_ = state.number("skipped_steps", 0, Dtype::i32, {.most = kMostSteps, .counts_steps = true});
}

Tensor LossScale::scaled(const Tensor& loss) const {
  if (scale_) return loss * *scale_;
  return options_.scale == 1 ? loss : loss * options_.scale;
}

std::vector<Gradient> LossScale::unscaled(const std::vector<Gradient>& gradients) const {
  if (!scale_ && options_.scale == 1) return gradients;
  const Tensor factor = scale_ ? 1 / scale_->value() : Tensor(1 / options_.scale);
  std::vector<Gradient> result = gradients;
  for (Gradient& gradient : result) gradient.value = gradient.value * factor;
  return result;
}

void LossScale::finish(const std::vector<Gradient>& gradients) const {
  if (!scale_) return;
  const Tensor ok = all_finite(gradients), grown = *good_ + 1 >= options_.growth_interval;
  Trace::rollback_unless(ok);
  scale_->set(clip(where(ok, where(grown, *scale_ * 2, *scale_), *scale_ * 0.5), kLeast, kMost));
  good_->set(where(logical_and(ok, logical_not(grown)), *good_ + 1, 0));
  skipped_->set(*skipped_ + (1 - cast(ok, Dtype::i32)));
}

}  // namespace nixie
