// A sweep over learning rates: trains a few steps while the rate grows exponentially, and suggests one from the losses.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nixie/configs/parse/config.h"

namespace nixie {

struct RateRange {
  double low = 1e-6, high = 10;  ///< of the first and the last step
  std::int64_t steps = 100;      ///< at most: a sweep ends where the loss has left its course
};

struct RateLoss {
  double rate;
  double loss;    ///< before the step's update, so after those with lower rates
  double smooth;  ///< exponential mean of the losses so far, decay 0.9, without bias
};

struct RateCurve {
  std::vector<RateLoss> steps = {};
  bool has_diverged = false;  ///< the smooth loss passed four times its lowest value, or was no number
};

/// The steps of one sweep, from the losses as they come (Smith 2017, section 3.3).
class RateSweep {
 public:
  /// False where the sweep is to end.
  bool add(double rate, double loss);
  void diverge() { curve_.has_diverged = true; }
  const RateCurve& curve() const { return curve_; }

 private:
  RateCurve curve_;
  double mean_ = 0, weight_ = 0, lowest_ = 0;
};

/// Trains the configuration from its initial weights with each rate of the range in turn, in place of its schedule. No
/// file is written. `show` is called after each step. Throws as a run does.
RateCurve sweep_rates(const TrainConfig& config, const RateRange& range,
                      const std::function<void(const RateCurve&)>& show = {});

/// A tenth of the rate at which the smooth loss is lowest. Nothing where the loss did not fall, or still fell at the
/// highest rate.
std::optional<double> suggested_rate(const RateCurve& curve);

/// The advice from the curve, in one line.
std::string rate_advice(const RateCurve& curve, const RateRange& range);

}  // namespace nixie
