// Convolutions along the depth of volumes, whose windows have one pixel of a plane (3x1x1), become ones of two axes,
// the depth and the pixels of a plane, which kernels for tensor cores compute without a copy.
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/space/space.h"

namespace nixie::cuda {

void merge_pixels(Plan& plan) {
  std::set<int> slots;
  for (const Kernel& kernel : plan.kernels)
    if (kernel.head && has_pixels(kernel)) add_slots(slots, kernel);
  change_at(
      plan, slots, [](const Kernel& kernel) { return has_pixels(kernel); }, over_pixels);
}

}  // namespace nixie::cuda
