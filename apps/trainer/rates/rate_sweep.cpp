// The sweep is an ordinary run with an exponential schedule, watched by a callback.
#include "nixie/apps/trainer/rates/rate_sweep.h"

#include <algorithm>
#include <cmath>

#include "nixie/apps/trainer/profile/profile.h"
#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/trainer.h"
#include "nixie/core/base/error.h"

namespace nixie {
namespace {

constexpr double kDecay = 0.9, kMostRise = 4;
constexpr std::int64_t kMostSkipped = 3;  // steps whose loss is no number

/// The configuration without what a sweep does not use, with the range's rates for a schedule.
TrainConfig swept(TrainConfig config, const RateRange& range, double steps_per_epoch) {
  const double growth = std::log(range.high / range.low) / static_cast<double>(range.steps - 1);
  config = bare_run(std::move(config), range.steps + 1);  // ended before the last one, which an evaluation follows
  config.schedule = AnySchedule(ExponentialRate{.rate = range.low, .factor = std::exp(growth * steps_per_epoch)});
  config.log_every = 1;
  config.ema = 0;
  config.non_finite = "skip";
  return config;
}

class Watch final : public Callback {
 public:
  Watch(const RateRange& range, const std::function<void(const RateCurve&)>& show) : range_(range), show_(show) {}

  void interval_ends(Trainer& trainer, const Interval& interval) override {
    seen_ = interval.step;
    if (!sweep_.add(interval.rate, interval.loss)) trainer.stop();
    if (show_) show_(sweep_.curve());
  }
  // A step that is skipped has no row.
  void step_ends(Trainer& trainer, std::int64_t step) override {
    if (step - seen_ > kMostSkipped) sweep_.diverge(), trainer.stop();
    if (step >= range_.steps) trainer.stop();
  }
  const RateCurve& curve() const { return sweep_.curve(); }

 private:
  RateRange range_;
  std::function<void(const RateCurve&)> show_;
  RateSweep sweep_;
  std::int64_t seen_ = 0;
};

std::vector<RateLoss>::const_iterator lowest(const RateCurve& curve) {
  return std::ranges::min_element(curve.steps, {}, &RateLoss::smooth);
}

/// A twentieth of the steps at either end says nothing: the mean has just begun, or the loss may fall further.
std::ptrdiff_t margin(const RateCurve& curve) { return static_cast<std::ptrdiff_t>(curve.steps.size() / 20); }

bool has_fallen(const RateCurve& curve) { return lowest(curve) - curve.steps.begin() > margin(curve); }

}  // namespace

bool RateSweep::add(double rate, double loss) {
  mean_ = kDecay * mean_ + (1 - kDecay) * loss;
  weight_ = kDecay * weight_ + (1 - kDecay);
  const double smooth = mean_ / weight_;
  if (!std::isfinite(smooth)) return diverge(), false;
  lowest_ = curve_.steps.empty() ? smooth : std::min(lowest_, smooth);
  curve_.steps.push_back({rate, loss, smooth});
  // A loss may be below zero, so its rise is measured from the fall that went before, too.
  const double fallen = curve_.steps.front().smooth - lowest_;
  if (smooth - lowest_ > (kMostRise - 1) * std::max(std::abs(lowest_), fallen)) diverge();
  return !curve_.has_diverged;
}

RateCurve sweep_rates(const TrainConfig& config, const RateRange& range,
                      const std::function<void(const RateCurve&)>& show) {
  check(range.low > 0 && range.low < range.high, "find-rate: sweeps from ", range.low, " to ", range.high,
        "; the first rate is above 0 and below the last");
  const std::int64_t steps_per_epoch = Trainer(config, {.reads_init_from = false}).steps_per_epoch();
  const auto watch = std::make_shared<Watch>(range, show);
  Trainer trainer(swept(config, range, static_cast<double>(steps_per_epoch)), {.callbacks = {watch}});
  within_batch(config, [&] { trainer.train(); });
  return watch->curve();
}

std::optional<double> suggested_rate(const RateCurve& curve) {
  if (curve.steps.empty() || !has_fallen(curve)) return std::nullopt;
  if (!curve.has_diverged && curve.steps.end() - 1 - lowest(curve) <= margin(curve)) return std::nullopt;
  return lowest(curve)->rate / 10;
}

std::string rate_advice(const RateCurve& curve, const RateRange& range) {
  if (const std::optional<double> rate = suggested_rate(curve))
    return fmt::format("the loss is lowest at rate {:.2g}; try a tenth of that: {:.2g}", lowest(curve)->rate, *rate);
  if (curve.steps.empty() || !has_fallen(curve))
    return fmt::format(
        "the loss did not fall between rates {:.2g} and {:.2g}: begin lower, with --from {:.2g}, or take "
        "more steps, with --steps {}",
        range.low, range.high, range.low / 1000, 4 * range.steps);
  return fmt::format("the loss still falls at rate {:.2g}: go on higher, with --to {:.2g}", range.high,
                     100 * range.high);
}

}  // namespace nixie
