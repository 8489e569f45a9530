// The portable programs: one for each template that runs on every chip.
#pragma once

#include <optional>

#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/cuda/generate/shared_launch.h"

namespace nixie::cuda {

/// Whether a head is a product of operands, a matrix product or a convolution; else it looks elements up.
bool is_product(const Head& head);

/// Elementwise stages, also after a head that looks elements up (map.cuh, gather.cuh).
KernelCode generate_map(const Plan& plan, const Kernel& kernel);
OneLaunch map_launch(const Plan& plan, const Kernel& kernel);
/// Stages with reductions (reduce.cuh). Reductions whose parts other groups have computed (`merges`) only combine them.
/// Results do not depend on the chip, which says how many blocks run at a time.
KernelCode generate_reduce(const Plan& plan, const Kernel& kernel, const Chip& chip,
                           const std::vector<Parts>& merges = {});
/// The same, written so that reductions of many sizes are of one pattern; none where it takes several launches.
std::optional<OneLaunch> reduce_launch(const Plan& plan, const Kernel& kernel);
/// Heads that are products, in a tile by name, "128x64", or the first (gemm.cuh, gemm_mma.cuh).
std::vector<Algorithm> product_algorithms(const Plan& plan, const Kernel& kernel);
std::string product_operation(const Plan& plan, const Kernel& kernel);
KernelCode generate_product(const Plan& plan, const Kernel& kernel, const std::string& tile = {});
/// How long a product of 16-bit operands should take in its first tile, in seconds.
double product_seconds(const Plan& plan, const Kernel& kernel, int sms);

/// A head that is looked up position by position: members of Body, and the call that gives its value.
struct HeadCode {
  std::string members{}, call{};
  bool wide = false;
};
HeadCode lookup_head(const Plan& plan, const Kernel& kernel, BodyWriter& body, const Frame& frame);

}  // namespace nixie::cuda
