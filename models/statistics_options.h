// StatisticsOptions: what of a run is measured, how often, and in which formats it might have been stored.
#pragma once

#include <string>
#include <vector>

#include "nixie/core/base/fields.h"

namespace nixie {

struct StatisticsOptions {
  std::int64_t every = 0;
  std::string layers = "*";
  std::int64_t histograms = 0;
  std::vector<std::string> shadow = {};
  std::string scale = "tensor";
  int block = 32;

  static constexpr const char* name = "statistics";
  static constexpr auto fields() {
    using S = StatisticsOptions;
    return field_list(
        field("every", &S::every, "steps from one that is measured to the next; 0 = none is", {0, 1e9}),
        field("layers", &S::layers, "paths of the layers that are measured (features.0); * matches any text"),
        field("histograms", &S::histograms,
              "steps from one with histograms of exponents to the next, each a multiple of every; 0 = none", {0, 1e9}),
        field("shadow", &S::shadow,
              "up to eight formats (docs/numerics.md) whose errors on a sample of the run's own values are measured, "
              "without storing anything in them"),
        field("scale", &S::scale, "which numbers share a power of two in these formats, as in formats",
              one_of("none tensor channel block")),
        field("block", &S::block, "numbers of a block", {1, 65536}));
  }
};
inline std::string field_text(const StatisticsOptions& options) { return fields_text(options); }

}  // namespace nixie
