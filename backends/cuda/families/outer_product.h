// Sums of few outer products with work done on the result, by outer_product.cuh: which kernels of a plan it runs.
#pragma once

#include <optional>

#include "nixie/backends/cuda/generate/codegen.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// A^T B of row-major 16-bit matrices a [terms, rows] and b [terms, columns].
struct OuterProduct {
  std::int64_t rows = 0, columns = 0, terms = 0;
  Dtype dtype = Dtype::f16;
};

/// The product of a kernel, if there are few terms and the result is used on the spot, as the update of a linear
/// layer's weights uses their gradient. A large result that is only stored is the library's.
std::optional<OuterProduct> as_outer_product(const Plan& plan, const Kernel& kernel);
KernelCode generate_outer_product(const Plan& plan, const Kernel& kernel, const OuterProduct& product);

}  // namespace nixie::cuda
