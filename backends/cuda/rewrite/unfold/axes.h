// Cuts and splits axes of kernels without a head.
#pragma once

#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// Whether an axis of a kernel's domain can be cut and split: no position dependence, no reductions, and no bounded
/// access along it.
bool can_cut(const Kernel& kernel, int axis);

/// The kernel at `count` positions `first`, `first` + `step`, ... of an axis.
Kernel every_nth(Kernel kernel, int axis, std::int64_t first, std::int64_t step, std::int64_t count);

/// The kernel with an axis split into `sizes`, the innermost last, whose product is the axis' size.
Kernel with_split_axis(Kernel kernel, int axis, const std::vector<std::int64_t>& sizes);

/// The range of positions below `count` for which first + step * position is in [0, size).
std::pair<std::int64_t, std::int64_t> positions_inside(std::int64_t size, std::int64_t first, std::int64_t step,
                                                       std::int64_t count);

/// Splits `size` positions into blocks of `block`, the last of which may be smaller. Calls act(first block, number of
/// blocks, size of each) for the whole blocks and for the smaller one, if any.
template <class Act>
void for_equal_blocks(std::int64_t size, std::int64_t block, const Act& act) {
  if (size >= block) act(std::int64_t{0}, size / block, block);
  if (size % block != 0) act(size / block, std::int64_t{1}, size % block);
}

}  // namespace nixie::cuda
