// Schedules: the learning rate as a function of the step, on the device as an expression of the step counter and on the
// host as a number. Lengths are in epochs, fractions allowed; the rate changes with every step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/variable.h"

namespace nixie {

/// How long a run is, in the schedules' units. By default an epoch is one step.
struct RunLength {
  double steps_per_epoch = 1;
  double epochs = 0;  ///< of the whole run; 0: unknown
};

/// Linear warm-up: a factor that rises from `start` to 1 over the first epochs (PyTorch's LinearLR) multiplies the
/// schedule's rate.
struct Warmup {
  double epochs = 0, start = 0.01;

  static constexpr const char* name = "warmup";
  static constexpr auto fields() {
    return field_list(field("epochs", &Warmup::epochs, "length", {0}),
                      field("start", &Warmup::start, "factor of the rate at the first step", {0, 1}));
  }
};
std::string field_text(const Warmup& warmup);

// Fields of most schedules.
template <class T>
constexpr auto warmup_field() {
  return field("warmup", &T::warmup, "linear warm-up");
}
template <class T>
constexpr auto first_rate_field() {
  return field("rate", &T::rate, "initial learning rate", {0});
}
template <class T>
constexpr auto factor_field() {
  return field("factor", &T::factor, "factor of the rate at each change", {0});
}

// Each schedule's `at` is its formula, without warm-up, for a step counted from 0. Real is double or Tensor (f32).
// t is the step in epochs.

/// The rate stays the same.
struct ConstantRate {
  double rate = 0.01;
  Warmup warmup = {};

  static constexpr const char* name = "constant";
  static constexpr auto fields() {
    return field_list(field("rate", &ConstantRate::rate, "learning rate", {0}), warmup_field<ConstantRate>());
  }
  template <class Real>
  Real at(const Real& step, const RunLength& run) const;
};

/// rate * factor^floor(t / every) (StepLR).
struct StepRate {
  double rate = 0.01, factor = 0.1, every = 30;
  Warmup warmup = {};

  static constexpr const char* name = "step";
  static constexpr auto fields() {
    return field_list(first_rate_field<StepRate>(), factor_field<StepRate>(),
                      field("every", &StepRate::every, "epochs between changes", {1e-9}), warmup_field<StepRate>());
  }
  template <class Real>
  Real at(const Real& step, const RunLength& run) const;
};

/// rate * factor^(number of milestones that t has reached) (MultiStepLR), or times each reached milestone's own factor.
struct MultistepRate {
  double rate = 0.01, factor = 0.1;
  std::vector<double> milestones = {}, factors = {};
  Warmup warmup = {};

  static constexpr const char* name = "multistep";
  static constexpr auto fields() {
    return field_list(first_rate_field<MultistepRate>(), factor_field<MultistepRate>(),
                      field("milestones", &MultistepRate::milestones, "epochs at which it changes", {0}),
                      field("factors", &MultistepRate::factors, "one factor per milestone, in place of factor", {0}),
                      warmup_field<MultistepRate>());
  }
  template <class Real>
  Real at(const Real& step, const RunLength& run) const;
};

/// rate * factor^t (ExponentialLR).
struct ExponentialRate {
  double rate = 0.01, factor = 0.95;
  Warmup warmup = {};

  static constexpr const char* name = "exponential";
  static constexpr auto fields() {
    return field_list(first_rate_field<ExponentialRate>(),
                      field("factor", &ExponentialRate::factor, "factor of the rate per epoch", {0}),
                      warmup_field<ExponentialRate>());
  }
  template <class Real>
  Real at(const Real& step, const RunLength& run) const;
};

/// rate * (1 - min(t, epochs) / epochs)^power (PolynomialLR).
struct PolynomialRate {
  double rate = 0.01, power = 1, epochs = 0;
  Warmup warmup = {};

  static constexpr const char* name = "polynomial";
  static constexpr auto fields() {
    return field_list(
        first_rate_field<PolynomialRate>(), field("power", &PolynomialRate::power, "exponent", {0}),
        field("epochs", &PolynomialRate::epochs, "epoch at which the rate becomes 0; 0 = the end of the run", {0}),
        warmup_field<PolynomialRate>());
  }
  template <class Real>
  Real at(const Real& step, const RunLength& run) const;
};

/// low + (rate - low) (1 + cos(pi min(t, epochs) / epochs)) / 2 (CosineAnnealingLR).
struct CosineRate {
  double rate = 0.01, low = 0, epochs = 0;
  Warmup warmup = {};

  static constexpr const char* name = "cosine";
  static constexpr auto fields() {
    return field_list(
        first_rate_field<CosineRate>(), field("low", &CosineRate::low, "final learning rate", {0}),
        field("epochs", &CosineRate::epochs, "epoch at which the rate is lowest; 0 = the end of the run", {0}),
        warmup_field<CosineRate>());
  }
  template <class Real>
  Real at(const Real& step, const RunLength& run) const;
};

/// rate, times `factor` whenever the observed metric has not improved for more than `patience` observations
/// (ReduceLROnPlateau, threshold relative).
struct PlateauRate {
  double rate = 0.01, factor = 0.1, threshold = 1e-4, low = 0;
  int patience = 10, cooldown = 0;
  bool maximize = false;
  Warmup warmup = {};

  static constexpr const char* name = "plateau";
  static constexpr auto fields() {
    return field_list(first_rate_field<PlateauRate>(),
                      field("factor", &PlateauRate::factor, "factor of the rate at each change", {0, 1}),
                      field("threshold", &PlateauRate::threshold, "relative change that counts as better", {0}),
                      field("low", &PlateauRate::low, "lowest learning rate", {0}),
                      field("patience", &PlateauRate::patience, "observations without improvement", {0}),
                      field("cooldown", &PlateauRate::cooldown, "observations to wait after a change", {0}),
                      field("maximize", &PlateauRate::maximize, "larger is better (accuracy, not loss)"),
                      warmup_field<PlateauRate>());
  }
  template <class Real>
  Real at(const Real& step, const RunLength& run) const;
};

using AllSchedules =
    Types<ConstantRate, StepRate, MultistepRate, ExponentialRate, PolynomialRate, CosineRate, PlateauRate>;

template <class T>
concept RateFormula = Options<T> && requires(const T& options, const Tensor& step, const RunLength& run) {
  { options.at(1.0, run) } -> std::convertible_to<double>;
  { options.at(step, run) } -> std::convertible_to<Tensor>;
  { options.warmup } -> std::convertible_to<Warmup>;
};

/// Any schedule's options, as a value; by default a constant rate.
class AnySchedule {
 public:
  AnySchedule();
  AnySchedule(const AnySchedule&) = default;  // no move, so that an AnySchedule always is one
  AnySchedule& operator=(const AnySchedule&) = default;
  template <RateFormula T>
  AnySchedule(const T& options)
      : kind_(T::name),
        text_(fields_text(options)),
        warmup_(options.warmup),
        host_([options](double step, const RunLength& run) { return options.at(step, run); }),
        device_([options](const Tensor& step, const RunLength& run) { return options.at(step, run); }),
        check_([options] { check_fields(options); }) {
    if constexpr (std::same_as<T, PlateauRate>) plateau_ = options;
  }

  /// `cosine`
  const std::string& kind() const { return kind_; }
  /// `cosine: {rate: 0.1, ...}`
  std::string text() const { return kind_ + ": " + text_; }
  /// Whether a larger metric is better (an option of plateau).
  bool maximizes() const { return plateau_ && plateau_->maximize; }

 private:
  friend class Schedule;
  std::string kind_, text_;
  Warmup warmup_;
  std::optional<PlateauRate> plateau_;
  std::function<double(double, const RunLength&)> host_;
  std::function<Tensor(const Tensor&, const RunLength&)> device_;
  std::function<void()> check_;
};
std::string field_text(const AnySchedule& schedule);

/// A schedule in a run.
class Schedule {
 public:
  /// Throws if the options are out of range or need an unknown length. A plateau keeps its observations in `state`,
  /// so that they are saved with it.
  Schedule(const AnySchedule& options, const RunLength& run, const Parameters& state);

  /// The rate at a step, an f32 scalar; `step` is an i32 scalar that counts from 0.
  Tensor rate(const Tensor& step) const;
  /// The same as a number.
  double rate(std::int64_t step) const;
  /// Gives a plateau the metric of an evaluation; other schedules ignore it.
  void observe(double metric) const;

 private:
  struct PlateauState {
    Variable factor, best, waited, cooling;
  };
  AnySchedule options_;
  RunLength run_;
  std::optional<PlateauState> plateau_;
};

}  // namespace nixie
