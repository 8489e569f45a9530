// Gives convolutions and poolings of one spatial axis, and the kernels around them, a second one: images of one row.
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/space/space.h"

namespace nixie::cuda {
namespace {

bool slides(const Kernel& kernel) {
  return kernel.head && kernel.domain.rank() == 3 &&
         (std::holds_alternative<Conv>(kernel.head->op) || std::holds_alternative<Pool>(kernel.head->op));
}

}  // namespace

void give_second_axis(Plan& plan) {
  std::set<int> slots;
  for (const Kernel& kernel : plan.kernels)
    if (slides(kernel)) add_slots(slots, kernel);
  const auto can = [](const Kernel& kernel) { return slides(kernel) || (!kernel.head && kernel.domain.rank() == 3); };
  change_at(plan, slots, can, with_unit_axis);
}

}  // namespace nixie::cuda
