// neon's optimizers and schedules as nixie's keys.
#pragma once

#include "nixie/configs/parse/neon/layers.h"

namespace nixie {

/// The keys optimizer, schedule, parameter_groups, clip_value and clip_norm. `epochs` is the length of the run.
Fields training_of_neon(NeonSource& source, const std::vector<ConvertedLayer>& layers, int epochs);

}  // namespace nixie
