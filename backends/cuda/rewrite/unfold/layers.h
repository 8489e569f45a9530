// A convolution as a sum over a window: forward, or as a filter gradient, of its own images or of dy.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/form.h"

namespace nixie::cuda {

/// Which operands a sum over a window reads, and where its filters are.
struct Layer {
  WindowSum sum = {};
  Operand images = {};  ///< cut where padding is negative
  /// Forward: filters of one group as [filters, channels, taps], and the step to the next group's; gradient: of
  /// results, [count, filters, ., .].
  Operand other = {};
  std::int64_t group_step = 0;
};

/// All of a kernel's, with so many groups together as may pay. None for strided input gradients.
std::vector<Layer> layers_of(const Kernel& kernel, const ConvProblem& conv);

/// An axis of an operand from its last position to the first.
void turn(Operand& operand, int axis);

}  // namespace nixie::cuda
