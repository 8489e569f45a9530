// Marks at round numbers.
#include "nixie/apps/trainer/report/axis.h"

#include <algorithm>
#include <cmath>

namespace nixie {
namespace {

constexpr double kTolerance = 1e-9;  // of a step: a mark at the end of the axis is one
constexpr double kFewPowers = 2;     // of ten, between which 2 and 5 are marked as well

/// One of 1, 2 or 5 times a power of ten, so that about five of them make `span`.
double nice_step(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (span / (factor * power) <= 6) return factor * power;
  return 10 * power;
}

}  // namespace

Axis::Axis(double low, double high, double from, double to, bool is_log) : from_(from), to_(to), is_log_(is_log) {
  if (is_log_) {
    low_ = std::log10(low), high_ = std::log10(high);
    for (double power = std::floor(low_); power <= high_ + kTolerance; ++power)
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double place = power + std::log10(factor);
        if (place < low_ - kTolerance || place > high_ + kTolerance) continue;
        if (factor == 1 || high_ - low_ < kFewPowers) marks_.push_back(factor * std::pow(10, power));
      }
    return;
  }
  if (!(high > low)) {
    const double room = std::max(std::abs(low) / 2, 1e-12);
    low -= room, high += room;
  }
  const double step = nice_step(high - low);
  low_ = step * std::floor(low / step + kTolerance), high_ = step * std::ceil(high / step - kTolerance);
  for (double i = 0; low_ + i * step <= high_ + step / 2; ++i) marks_.push_back(low_ + i * step);
}

double Axis::operator()(double value) const {
  return from_ + (to_ - from_) * ((is_log_ ? std::log10(value) : value) - low_) / (high_ - low_);
}

}  // namespace nixie
