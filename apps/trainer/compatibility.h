// Whether the parts that a configuration names go together, which each by itself cannot tell.
#pragma once

#include "nixie/apps/trainer/objective.h"

namespace nixie {

/// Throws a usage Error at the key of the file where the model's output, the loss and the data's targets do not fit, or
/// something waits for evaluations and there are none.
void check_goes_together(const TrainConfig& config, const Model& model, const Splits& data);

}  // namespace nixie
