// Copies filters to a form's layout.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/layers.h"

namespace nixie::cuda {

/// The kernels that write them to a slot, with zeros for the form's additional filters, channels and taps.
std::vector<Kernel> filter_copies(const Form& form, const Layer& layer, int slot);

/// The step between filters of neighbouring groups of a block, each with channels of its own.
std::int64_t group_step(const Form& form);

}  // namespace nixie::cuda
