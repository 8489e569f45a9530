// Which quotients of a stage need not be rounded correctly.
#pragma once

#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// For each instruction of the stage, whether it is an f32 quotient that may run as op::approximate_div, within 2 units
/// in the last place: what it is divided by comes from an exp, which is no more exact, of 16-bit numbers that the
/// kernel loads or its head computes. So the logistic function takes half as many instructions. Other quotients stay
/// exact where the numbers are: 6 / 3 is 2.
std::vector<bool> approximate_quotients(const Plan& plan, const Kernel& kernel, const Stage& stage);

}  // namespace nixie::cuda
