// The kernels after a form's convolution, which gather its results.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/layers.h"

namespace nixie::cuda {

/// Axes along which kernels after a form are cut (see can_cut).
std::vector<int> cut_axes(const Kernel& kernel, const Form& form);

/// The kernels after a forward convolution whose results, `made`, need gathering: from blocks with more filters than
/// the layer's, or from phases. `rest` reads them by its last load.
std::vector<Kernel> gathered(const Kernel& rest, const Form& form, const Access& made);

/// The kernels after a filter gradient, stored in the form's order in a slot that the last load reads.
std::vector<Kernel> gathered_gradient(const Kernel& rest, const Form& form);

/// A kernel that sums its former head, computed into a slot with taps as filters, over these taps.
Kernel folded(Kernel kernel, int made, const Form& form);

}  // namespace nixie::cuda
