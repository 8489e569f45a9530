// A mean of gradients has their size, so that f16 holds it where it holds them.
#include "nixie/apps/trainer/ranks/gradient_sum.h"

namespace nixie {

Dtype exchanged_dtype(const Tensor& gradient, PrecisionPolicy precision) {
  if (gradient.rank() < 2 || gradient.dtype() != Dtype::f32) return gradient.dtype();
  if (precision == PrecisionPolicy::fp16) return Dtype::f16;
  return precision == PrecisionPolicy::bf16 ? Dtype::bf16 : Dtype::f32;
}

Tensor gradient_sum(const World& world, const Tensor& gradient, PrecisionPolicy precision) {
  const Dtype dtype = exchanged_dtype(gradient, precision);
  if (world.is_alone() || dtype == gradient.dtype()) return all_reduce(world, gradient);
  const double ranks = world.size();
  return cast(all_reduce(world, cast(gradient * (1 / ranks), dtype)), gradient.dtype()) * ranks;
}

}  // namespace nixie
