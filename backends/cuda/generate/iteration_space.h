// IterationSpace: a kernel's domain with axes reordered and
// merged, so that neighbouring threads access neighbouring memory.
#pragma once

#include <utility>
#include <vector>

#include "nixie/core/base/shape.h"

namespace nixie::cuda {

/// An integer function of the position, offset + sum(position[axis] * strides[axis]), and its range.
struct Path {
  std::int64_t offset = 0;
  Strides strides;
  /// Per axis the range [low, high) of positions for which it is valid; empty: all positions.
  std::vector<std::pair<std::int64_t, std::int64_t>> inside;

  bool bounded(int axis, std::int64_t size) const;
};

/// Unbounded axes that are contiguous in every path are merged; axes of size 1 are dropped.
struct IterationSpace {
  std::vector<std::int64_t> sizes;  ///< outermost first; kept axes, then reduced ones
  int kept = 0;                     ///< number of kept axes
  std::vector<Path> paths;

  int rank() const { return static_cast<int>(sizes.size()); }
  std::int64_t kept_size() const;
  std::int64_t reduced_size() const;
};

/// `priority` lists paths, the most important first: its largest strides become the outermost axes.
IterationSpace make_iteration_space(const Shape& domain, const Axes& reduced, const std::vector<Path>& paths,
                                    const std::vector<int>& priority);
/// The original domain, nothing reordered or merged.
IterationSpace plain_iteration_space(const Shape& domain, const std::vector<Path>& paths);

}  // namespace nixie::cuda
