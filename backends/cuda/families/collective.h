// Collectives: calls of NCCL, several of which may be one launch.
#pragma once

#include <optional>
#include <vector>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// A call of NCCL: `count` elements of each rank's part (of a broadcast or a sum: of the whole array).
struct CollectiveCall {
  Collective op = {};
  int from = 0, to = 0;                         ///< slots
  std::int64_t from_offset = 0, to_offset = 0;  ///< in bytes
  std::int64_t count = 0;
  Dtype dtype = Dtype::f32;
};

/// Collectives that only store their result, in the order of the operand's elements and of its type.
const Family& collective();

/// The calls of a group of collectives, in order; none for another group.
std::vector<CollectiveCall> collective_calls(const Plan& plan, const Group& group);

/// Whether a kernel is one that the family takes.
std::optional<CollectiveCall> as_call(const Plan& plan, const Kernel& kernel);

/// Strides of an array whose elements are in the order of these strides of another array of its rank, without gaps.
Strides dense_like(const Shape& shape, const Strides& order);

}  // namespace nixie::cuda
