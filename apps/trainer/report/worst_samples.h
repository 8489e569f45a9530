// The samples that a model without single classes is worst at: pictures beside masks, numbers or their reconstruction.
#pragma once

#include <string>

#include "nixie/apps/trainer/evaluator.h"

namespace nixie {

/// Nothing where samples have a single class. `is_input`: the target of the loss is the sample itself.
std::string worst_samples_html(const Dataset& data, const Evaluation& evaluation, bool is_input);

}  // namespace nixie
