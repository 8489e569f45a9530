// A convolution as a sum over a window: forward or as a filter gradient, over its images or dy.
#pragma once

#include "nixie/backends/cuda/rewrite/unfold/form.h"

namespace nixie::cuda {

/// Consecutive filters of a group: the first of them, and their source as [filters, channels, taps], of which they have
/// the taps [low, high).
struct FilterPart {
  std::int64_t filter = 0;
  Access load = {};
  std::array<std::pair<std::int64_t, std::int64_t>, 2> taps = {};
};

/// The operands of a sum over a window, and the source of its filters.
struct Layer {
  WindowSum sum = {};
  Operand images = {};   ///< cropped if padding is negative
  Operand results = {};  ///< gradient: [count, filters, ., .]
  /// Forward: a group's filters in parts, the [filters, channels] of each, and the step to the next group's.
  std::vector<FilterPart> parts = {};
  std::array<std::int64_t, 2> part_shape = {};
  std::int64_t group_step = 0;
};

/// The layers as which a kernel can be computed: one for each number of groups per block that may be fastest.
std::vector<Layer> layers_of(const Kernel& kernel, const ConvProblem& conv);

/// Reverses an axis of an operand.
void turn(Operand& operand, int axis);

}  // namespace nixie::cuda
