// MixingOptions: mixup and cutmix of training batches.
#pragma once

#include "nixie/core/base/fields.h"

namespace nixie {

/// With fractions drawn from Beta(a, a): mixup (Zhang et al. 2018) blends, cutmix (Yun et al. 2019) pastes a box. If
/// both are on, each batch uses one of them.
struct MixingOptions {
  double mixup = 0, cutmix = 0, probability = 1;

  static constexpr const char* name = "mixing";
  static constexpr auto fields() {
    return field_list(
        field("mixup", &MixingOptions::mixup, "a of mixup's Beta(a, a), 0 = off", {0, 100}),
        field("cutmix", &MixingOptions::cutmix, "a of cutmix's Beta(a, a), 0 = off", {0, 100}),
        field("probability", &MixingOptions::probability, "fraction of the batches that are mixed", {0, 1}));
  }
};
inline std::string field_text(const MixingOptions& mixing) { return fields_text(mixing); }

}  // namespace nixie
