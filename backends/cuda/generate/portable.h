// The portable programs: one for each template that runs on every chip.
#pragma once

#include <optional>

#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/cuda/generate/shared_launch.h"

namespace nixie::cuda {

/// Whether a head is a matrix product or a convolution; else it gathers elements.
bool is_product(const Head& head);

/// Elementwise stages, also after a head that gathers elements (map.cuh, gather.cuh).
KernelCode generate_map(const Plan& plan, const Kernel& kernel);
OneLaunch map_launch(const Plan& plan, const Kernel& kernel);
/// Stages with reductions (reduce.cuh). Reductions whose parts other groups have computed (`merges`) only combine them.
/// The chip gives the number of resident blocks; results do not depend on it.
KernelCode generate_reduce(const Plan& plan, const Kernel& kernel, const Chip& chip,
                           const std::vector<Parts>& merges = {});
/// The same, written so that reductions of many sizes have one pattern; none if it needs several launches.
std::optional<OneLaunch> reduce_launch(const Plan& plan, const Kernel& kernel, const std::vector<Parts>& merges);
/// Heads that are products, in a tile by name, "128x64", or the first (gemm.cuh, gemm_sm80.cuh).
std::vector<Algorithm> product_algorithms(const Plan& plan, const Kernel& kernel, const Chip& chip);
std::string product_operation(const Plan& plan, const Kernel& kernel);
KernelCode generate_product(const Plan& plan, const Kernel& kernel, const Chip& chip, const std::string& tile = {});
/// The time that a kernel should take, and the part of the chip that it fills meanwhile: other kernels run on the rest.
struct Estimate {
  double seconds = 0, share = 1;
};
/// The share of a product in tf32, of which only the mean was measured.
inline constexpr double kMeanShare = 0.6;
/// Estimates a product with its first tile.
Estimate product_estimate(const Plan& plan, const Kernel& kernel, const Chip& chip);

/// Whether a head computes whole rows: sorting, scans.
bool computes_rows(const Head& head);
/// Whether a kernel only stores its head's result, once.
bool only_stores_head(const Kernel& kernel);
/// Heads that compute whole rows, in kernels that only store them (scan.cuh, argsort.cuh).
KernelCode generate_scan(const Plan& plan, const Kernel& kernel);
KernelCode generate_argsort(const Plan& plan, const Kernel& kernel);
/// "Sum<f32>": the accumulator of a reduction that folds values of a type.
std::string fold_name(ReduceKind kind, Dtype type);

/// Whether indices of a kernel's operands and results need 64 bits.
bool index_is_wide(const BodyWriter& body, const Kernel& kernel);
/// Adds pointers operand0, operand1 of a head's operands.
void add_operands(BodyWriter& body, const Plan& plan, const Head& head);

/// A head that gathers elements: members of Body, and the call that returns its value.
struct HeadCode {
  std::string members{}, call{};
  bool wide = false;
};
HeadCode lookup_head(const Plan& plan, const Kernel& kernel, BodyWriter& body, const Frame& frame);

}  // namespace nixie::cuda
