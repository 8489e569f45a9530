// Finds sums over images and pixels.
#include "nixie/backends/cuda/families/channel_sum.h"

#include <algorithm>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {

bool reduces_to_channels(const Kernel& kernel) {
  const auto reduces = [&](int axis) { return std::ranges::find(kernel.reduced, axis) != kernel.reduced.end(); };
  bool others = !kernel.reduced.empty();
  for (int axis = 0; axis < kernel.domain.rank(); ++axis)
    others &= axis == 1 ? !reduces(axis) : reduces(axis) || kernel.domain[axis] == 1;
  return others;
}

const Access* stored_channel_sum(const Plan& plan, const Kernel& kernel, const Operand& of) {
  const bool matrix = of.shape.rank() == 2;  // dy turned: [channels, rows]
  const Shape summed = matrix ? Shape{of.shape[1], of.shape[0]} : of.shape;
  if (kernel.head || !reduces_to_channels(kernel) || kernel.domain != summed || kernel.loads.size() != 1 ||
      kernel.stores.size() != 1 || kernel.stages.size() != 2)
    return nullptr;
  const Access &load = kernel.loads[0], &store = kernel.stores[0];
  const Stage &full = kernel.stages[0], &kept = kernel.stages[1];
  const bool reads =
      load.slot == of.slot && load.offset == of.offset && load.inside.empty() &&
      (matrix ? load.strides == Strides{of.shape[0], 1} : is_channels_last(of.shape, load.strides, load.offset));
  const bool sums = full.full && full.body.size() == 1 && full.body[0].primitive == Primitive::load &&
                    full.stores.empty() && full.reductions.size() == 1 && full.carries.empty() &&
                    full.reductions[0].kind == ReduceKind::sum;
  const bool stores = !kept.full && kept.body.size() == 1 && kept.body[0].primitive == Primitive::carried &&
                      kept.stores.size() == 1 && kept.carries.empty() && store.inside.empty() &&
                      store.strides[1] == 1 && dtype_of(plan, store.slot) == Dtype::f32;
  return reads && sums && stores ? &store : nullptr;
}

std::optional<Absorption> with_channel_sum(const Grouping& grouping, const Choice& choice, std::size_t other) {
  const std::vector<Kernel>& members = grouping.groups[other].members;
  if (choice.channel_sum || members.size() != 1) return {};
  const Access* sum = stored_channel_sum(grouping.plan, members[0], choice.kernel.head->operands[0]);
  if (!sum) return {};
  Absorption with{.choice = choice};
  with.choice.channel_sum = Access{.slot = sum->slot, .offset = sum->offset, .strides = {0, 0, 0, 0}};
  return with;
}

}  // namespace nixie::cuda
