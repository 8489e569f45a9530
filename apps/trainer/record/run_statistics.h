// The statistics of a run, as its configuration asks for them, and what they say of a step that is not finite.
#pragma once

#include <optional>

#include "nixie/configs/parse/config.h"
#include "nixie/models/statistics.h"

namespace nixie {

/// None where the configuration asks for none. Throws a usage Error for formats that do not exist.
std::optional<Statistics> statistics_of(const TrainConfig& config, const Model& model);

/// `the first infinity or NaN that statistics saw is in the ROLE of LAYER at step N`; "" where there was none.
std::string overflow_text(const std::vector<TensorStatistics>& rows);

}  // namespace nixie
