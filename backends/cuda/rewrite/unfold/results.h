// The kernels after a form's convolution, which read its results from where they are.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/layers.h"

namespace nixie::cuda {

/// Axes along which kernels after a form are cut (see can_cut).
std::vector<int> cut_axes(const Kernel& kernel, const Form& form);

/// What follows a forward convolution whose results, `made`, are apart: of blocks with more filters than the layer's,
/// or of phases. `rest` reads them by its last load.
std::vector<Kernel> gathered(const Kernel& rest, const Form& form, const Access& made);

/// What follows a filter gradient, stored in the form's order in a slot that the last load reads.
std::vector<Kernel> gathered_gradient(const Kernel& rest, const Form& form);

/// A kernel that sums what its head was, made with taps as filters in a slot, over these.
Kernel folded(Kernel kernel, int made, const Form& form);

}  // namespace nixie::cuda
