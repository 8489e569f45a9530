// A convolution as a sum over a window: forward, or as a filter gradient, of its own images or of dy.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/form.h"

namespace nixie::cuda {

/// Filters of a group in a row: from which on, and what they read, as [filters, channels, taps], at the taps [low,
/// high).
struct FilterPart {
  std::int64_t filter = 0;
  Access load = {};
  std::array<std::pair<std::int64_t, std::int64_t>, 2> taps = {};
};

/// Which operands a sum over a window reads, and where its filters are.
struct Layer {
  WindowSum sum = {};
  Operand images = {};   ///< cut where padding is negative
  Operand results = {};  ///< gradient: [count, filters, ., .]
  /// Forward: all filters of a group in parts, each [filters, channels] large, and the step to the next group's.
  std::vector<FilterPart> parts = {};
  std::array<std::int64_t, 2> part_shape = {};
  std::int64_t group_step = 0;
};

/// All of a kernel's, with so many groups together as may pay.
std::vector<Layer> layers_of(const Kernel& kernel, const ConvProblem& conv);

/// An axis of an operand from its last position to the first.
void turn(Operand& operand, int axis);

}  // namespace nixie::cuda
