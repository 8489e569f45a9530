// The schedules' formulas, each written once for numbers and for expressions.
#include "nixie/optimizers/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace nixie {
namespace {

// The formulas call these functions of double by the names that they have for Tensor.
double minimum(double a, double b) { return std::min(a, b); }
using std::cos;
using std::floor;
using std::pow;

// How far a stretch of epochs has come, in [0, 1]. Its steps are no 0 in f32.
template <class Real>
Real progress(const Real& step, double epochs, const RunLength& run) {
  return minimum(step / std::max(epochs * run.steps_per_epoch, 1e-9), Real(1.0));
}

// The step at which a schedule changes, in f32, as the device compares it: 0.55 epochs of 100 steps are 55,
// not 55.00000000000001.
double steps_in(double epochs, const RunLength& run) { return static_cast<float>(epochs * run.steps_per_epoch); }

// All 53 bits: a number by itself becomes an f32.
void store(const Variable& variable, double value) { variable.set(Array::from(std::vector<double>{value}, {})); }

double length(double epochs, const RunLength& run, const char* name) {
  const double result = epochs > 0 ? epochs : run.epochs;
  check(result > 0, name, ": epochs is 0 and the run's length is not known; set epochs");
  return result;
}

}  // namespace

template <class Real>
Real ConstantRate::at(const Real&, const RunLength&) const {
  return Real(rate);
}

template <class Real>
Real StepRate::at(const Real& step, const RunLength& run) const {
  return rate * pow(Real(factor), floor(step / steps_in(every, run)));
}

template <class Real>
Real MultistepRate::at(const Real& step, const RunLength& run) const {
  check(factors.empty() || factors.size() == milestones.size(), "multistep: ", factors.size(), " factors for ",
        milestones.size(), " milestones, expected one for each");
  if (!factors.empty()) {
    Real product = rate;
    for (std::size_t i = 0; i < milestones.size(); ++i) {
      const Real has_come = Real(0.0) + (step >= steps_in(milestones[i], run));
      product = product * (1.0 + (factors[i] - 1.0) * has_come);
    }
    return product;
  }
  Real reached = 0.0;
  for (double milestone : milestones) reached = reached + (step >= steps_in(milestone, run));
  return rate * pow(Real(factor), reached);
}

template <class Real>
Real ExponentialRate::at(const Real& step, const RunLength& run) const {
  return rate * pow(Real(factor), step / run.steps_per_epoch);
}

template <class Real>
Real PolynomialRate::at(const Real& step, const RunLength& run) const {
  return rate * pow(1.0 - progress(step, length(epochs, run, name), run), Real(power));
}

template <class Real>
Real CosineRate::at(const Real& step, const RunLength& run) const {
  return low + (rate - low) * 0.5 * (1.0 + cos(std::numbers::pi * progress(step, length(epochs, run, name), run)));
}

template <class Real>
Real PlateauRate::at(const Real&, const RunLength&) const {
  check(low <= rate, name, ": low is ", low, ", above the rate, ", rate, ", which a plateau only lowers");
  return Real(rate);
}

#define NIXIE_INSTANTIATE(Rate)                                    \
  template double Rate::at(const double&, const RunLength&) const; \
  template Tensor Rate::at(const Tensor&, const RunLength&) const;
NIXIE_INSTANTIATE(ConstantRate)
NIXIE_INSTANTIATE(StepRate)
NIXIE_INSTANTIATE(MultistepRate)
NIXIE_INSTANTIATE(ExponentialRate)
NIXIE_INSTANTIATE(PolynomialRate)
NIXIE_INSTANTIATE(CosineRate)
NIXIE_INSTANTIATE(PlateauRate)
#undef NIXIE_INSTANTIATE

std::string field_text(const Warmup& warmup) { return fields_text(warmup); }
AnySchedule::AnySchedule() : AnySchedule(ConstantRate{}) {}

std::string field_text(const AnySchedule& schedule) { return "{" + schedule.text() + "}"; }

Schedule::Schedule(const AnySchedule& options, const RunLength& run, const Parameters& state)
    : options_(options), run_(run) {
  Scope scope("schedule", options.kind());
  check(run.steps_per_epoch > 0, "an epoch has ", run.steps_per_epoch, " steps");
  options_.check_();
  check_fields(options_.warmup_);
  options_.host_(0, run_);  // throws where the length is missing
  if (const auto& plateau = options_.plateau_) {
    // The metrics of a run are finite; the first is better than an infinity. Patience and cooldown may be lowered when
    // a run is resumed, which leaves counts above them.
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr double kLargest = std::numeric_limits<double>::max(), kMostSteps = std::numeric_limits<int>::max();
    const bool grows = plateau->maximize;
    plateau_ = PlateauState{state.number("plateau_factor", 1, Dtype::f64, {0, 1}),
                            state.number("plateau_best", grows ? -kInfinity : kInfinity, Dtype::f64,
                                         {grows ? -kInfinity : -kLargest, grows ? kLargest : kInfinity}),
                            state.number("plateau_waited", 0, Dtype::i32, {.most = kMostSteps, .counts_steps = true}),
                            state.number("plateau_cooling", 0, Dtype::i32, {0, kMostSteps})};
  }
}

Tensor Schedule::rate(const Tensor& step) const {
  const Tensor count = cast(step, Dtype::f32);
  Tensor rate = cast(options_.device_(count, run_), Dtype::f32);
  const Warmup& warmup = options_.warmup_;
  if (warmup.epochs > 0) rate = rate * (warmup.start + (1 - warmup.start) * progress(count, warmup.epochs, run_));
  if (plateau_) rate = rate * cast(plateau_->factor, Dtype::f32);
  return rate;
}

double Schedule::rate(std::int64_t step) const {
  const auto count = static_cast<double>(step);
  double rate = options_.host_(count, run_);
  const Warmup& warmup = options_.warmup_;
  if (warmup.epochs > 0) rate *= warmup.start + (1 - warmup.start) * progress(count, warmup.epochs, run_);
  return plateau_ ? rate * plateau_->factor.array().item() : rate;
}

void Schedule::observe(double metric) const {
  if (!plateau_) return;
  const PlateauRate& options = *options_.plateau_;
  const double best = plateau_->best.array().item();
  const bool better =
      options.maximize ? metric > best * (1 + options.threshold) : metric < best * (1 - options.threshold);
  double waited = better ? 0 : plateau_->waited.array().item() + 1;
  double cooling = std::min<double>(plateau_->cooling.array().item(), options.cooldown);
  if (better) store(plateau_->best, metric);
  if (cooling > 0) {
    --cooling;
    waited = 0;
  }
  if (waited > options.patience) {
    const double lowest = options.rate > 0 ? options.low / options.rate : 0;
    store(plateau_->factor, std::max(plateau_->factor.array().item() * options.factor, lowest));
    cooling = options.cooldown;
    waited = 0;
  }
  store(plateau_->waited, waited);
  store(plateau_->cooling, cooling);
}

}  // namespace nixie
