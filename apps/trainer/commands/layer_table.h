// A net's layers as a table: name, kind, output shape of one sample, parameters and options that are not the defaults.
#pragma once

#include <string>

#include "nixie/models/model.h"

namespace nixie {

/// `input` is [N, ...].
std::string layer_table(const AnyModel& model, const Shape& input);

}  // namespace nixie
