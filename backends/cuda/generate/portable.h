// The portable programs: one for each template that runs on every chip.
#pragma once

#include "nixie/backends/cuda/generate/program.h"

namespace nixie::cuda {

/// Whether a head is a product of operands, a matrix product or a convolution; else it looks elements up.
bool is_product(const Head& head);

/// Elementwise stages, also after a head that looks elements up (map.cuh, gather.cuh).
KernelCode generate_map(const Plan& plan, const Kernel& kernel);
/// Stages with reductions (reduce.cuh); those that parts are left of merge them.
KernelCode generate_reduce(const Plan& plan, const Kernel& kernel, const std::vector<Parts>& merges = {});
/// Heads that are products, in a tile by name, "128x64", or the first (gemm.cuh, gemm_mma.cuh).
std::vector<Algorithm> product_algorithms(const Plan& plan, const Kernel& kernel);
std::string product_operation(const Plan& plan, const Kernel& kernel);
KernelCode generate_product(const Plan& plan, const Kernel& kernel, const std::string& tile = {});

/// A head that is looked up position by position: members of Body, and the call that gives its value.
struct HeadCode {
  std::string members{}, call{};
  bool wide = false;
};
HeadCode lookup_head(const Plan& plan, const Kernel& kernel, BodyWriter& body, const Frame& frame);

}  // namespace nixie::cuda
