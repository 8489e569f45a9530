// Copies filters to a form's layout.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/layers.h"

namespace nixie::cuda {

/// The kernels that write a layer's filters to a slot, with zeros for the form's additional filters, channels and taps.
std::vector<Kernel> filter_copies(const Form& form, const Layer& layer, int slot);

/// The step between the filters of neighbouring groups in a block; each group has its own channels.
std::int64_t group_step(const Form& form);

}  // namespace nixie::cuda
