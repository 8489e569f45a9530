// Axis: maps values to positions of a drawing, and chooses its ticks.
#pragma once

#include <vector>

namespace nixie {

class Axis {
 public:
  /// Values from `low` to `high` at positions `from` to `to`. The ends of a linear axis move out to round numbers, and
  /// one value alone is in its middle; those of a logarithmic one, which are above zero, stay. Marks are at 1, 2 or 5
  /// times a power of ten, some five of them, or at powers of ten where there are several of these.
  Axis(double low, double high, double from, double to, bool is_log = false);
  double operator()(double value) const;
  const std::vector<double>& marks() const { return marks_; }

 private:
  double low_ = 0, high_ = 1, from_, to_;
  bool is_log_;
  std::vector<double> marks_;
};

}  // namespace nixie
