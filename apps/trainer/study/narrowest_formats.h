// The narrowest formats that a net's operands would bear, by the errors that Statistics measured.
#pragma once

#include "nixie/models/statistics.h"

namespace nixie {

/// For each layer the narrowest of `formats` (fewest bits; of equally wide ones the smaller error) whose errors are at
/// most `threshold`; "" where none is. Layers that agree with most are one rule, `*`, at the end. Roles other than
/// weights, activations and gradients are left out.
std::vector<FormatRule> narrowest_formats(const std::vector<Format>& formats, const std::vector<TensorStatistics>& rows,
                                          double threshold);

}  // namespace nixie
