// A dataset of which one training sample is no number.
#pragma once

#include "nixie/core/base/fields.h"
#include "nixie/tests/data/own_samples.h"

namespace nixie {

struct Poisoned {
  std::int64_t batch = 10, samples = 50;
  static constexpr const char* name = "poisoned";
  static constexpr auto fields() {
    return field_list(field("batch", &Poisoned::batch, "samples per step"),
                      field("samples", &Poisoned::samples, "of each half"));
  }
  Splits open() const {
    const auto half = [&](std::int64_t bad) {
      return test::own_samples({.size = [size = samples](int) { return size; },
                                .sample = {1, 2, 2},
                                .load =
                                    [bad](std::int64_t index, const AugmentKey&, std::span<float> pixels) {
                                      const auto label = static_cast<std::int32_t>(index % 3);
                                      std::ranges::fill(pixels, index == bad ? NAN : static_cast<float>(label));
                                      return label;
                                    }});
    };
    return {half(17), half(-1)};
  }
};

}  // namespace nixie
