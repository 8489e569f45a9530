// Histogram: how numbers are distributed, counted once and drawn small.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nixie {

struct Histogram {
  std::string name = {};
  double low = 0, high = 0;  ///< of the finite values
  double mean = 0, deviation = 0;
  std::int64_t not_finite = 0;
  std::vector<std::int64_t> counts = {};  ///< of equal parts of [low, high]; none where no value is finite
};

Histogram histogram_of(const std::string& name, std::span<const float> values, int bins = 40);

/// A figure of bars with the range below and mean and deviation above it.
std::string histogram_html(const Histogram& histogram);

}  // namespace nixie
