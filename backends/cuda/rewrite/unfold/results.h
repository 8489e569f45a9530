// The kernels after a form's convolution, which gather its results.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/layers.h"

namespace nixie::cuda {

/// The axes along which the kernels after a form's convolution are cut (see can_cut).
std::vector<int> cut_axes(const Kernel& kernel, const Form& form);

/// The kernels after a forward convolution whose results, `made`, must be gathered, from blocks that have more filters
/// than the layer or from phases. The last load of `rest` reads them.
std::vector<Kernel> gathered(const Kernel& rest, const Form& form, const Access& made);

/// The kernels after a filter gradient, which is in the form's order in the slot that the last load reads.
std::vector<Kernel> gathered_gradient(const Kernel& rest, const Form& form);

/// The kernel after a folded convolution: its head is replaced by the sum, over taps, of results with taps as filters.
Kernel folded(Kernel kernel, int made, const Form& form);

}  // namespace nixie::cuda
