// Collectives: values that all ranks of a World compute together, and their gradients.
#include <atomic>

#include "nixie/core/graph/world.h"
#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

Tensor collective(CollectiveKind kind, const World& world, const Tensor& x, const Shape& shape, int root = 0) {
  static std::atomic<std::int64_t> made{0};
  return Tensor::make(Collective{kind, world.communicator(), ++made, root}, {x}, shape, x.dtype());
}

void check_type(const char* name, const Tensor& x) {
  const Dtype dtype = x.dtype();
  check((is_floating(dtype) && !is_f8(dtype)) || dtype == Dtype::i32 || size_of(dtype) == 8, name, ": the values are ",
        dtype, ", expected a floating type of 16 bits or more, i32, i64 or u64; cast them");
}

// A sum over ranks of a view that repeats or reorders whole arrays is the view of the sum.
bool is_view_of_sums(const Tensor& x) { return is_a<Permute, Reshape, Expand>(x); }

}  // namespace

Tensor all_reduce(const World& world, const Tensor& x) {
  check_type("all_reduce", x);
  if (!world.communicator()) return x;
  if (is_view_of_sums(x)) return Tensor::make(x.node().op, {all_reduce(world, x.inputs()[0])}, x.shape(), x.dtype());
  return collective(CollectiveKind::all_reduce, world, x, x.shape());
}

Tensor all_gather(const World& world, const Tensor& x) {
  check_type("all_gather", x);
  check(x.rank() > 0, "all_gather: the value is a single number, expected at least one axis; reshape it to {1}");
  if (!world.communicator()) return x;
  return collective(CollectiveKind::all_gather, world, x, x.shape().with(0, x.shape()[0] * world.size()));
}

Tensor reduce_scatter(const World& world, const Tensor& x) {
  check_type("reduce_scatter", x);
  check(x.rank() > 0, "reduce_scatter: the value is a single number, expected at least one axis");
  if (!world.communicator()) return x;
  const std::int64_t share = world.share_of(x.shape()[0], "reduce_scatter: axis 0");
  return collective(CollectiveKind::reduce_scatter, world, x, x.shape().with(0, share));
}

Tensor broadcast_from(const World& world, const Tensor& x, int root) {
  check_type("broadcast_from", x);
  check(root >= 0 && root < world.size(), "broadcast_from: there is no rank ", root, ", the world has ", world.size());
  if (!world.communicator()) return x;
  return collective(CollectiveKind::broadcast, world, x, x.shape(), root);
}

Gradients gradient(const Collective& op, const Tensor& g, const Tensor&, const std::vector<Tensor>&) {
  const World world(op.communicator);
  switch (op.kind) {
    case CollectiveKind::all_reduce:
      return {all_reduce(world, g)};
    case CollectiveKind::all_gather:
      return {reduce_scatter(world, g)};
    case CollectiveKind::reduce_scatter:
      return {all_gather(world, g)};
    case CollectiveKind::broadcast:
      break;
  }
  // Every rank takes part in the sum, but only the root's input was used.
  return {where(world.rank() == op.root, all_reduce(world, g), 0)};
}

}  // namespace nixie
