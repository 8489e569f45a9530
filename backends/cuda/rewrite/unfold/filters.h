// Filters in a form's layout.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/layers.h"

namespace nixie::cuda {

/// The kernels that write them into a slot, with zeros where the form has more of them, of channels or of taps.
std::vector<Kernel> filter_copies(const Form& form, const Layer& layer, int slot);

/// The step between filters of neighbouring groups of a block, each with channels of its own.
std::int64_t group_step(const Form& form);

}  // namespace nixie::cuda
