// Product: how gemm.cuh and gemm_sm80.cuh compute a matrix product or a convolution, and how they read its operands.
#pragma once

#include <string>

#include "nixie/backends/cuda/device/chip.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

struct Product {
  std::string problem{};    ///< "ConvOutput"
  std::string words{};      ///< "convolution of"
  std::string constants{};  ///< of Body
  std::int64_t m = 0, n = 0, k = 0, groups = 1;
  bool along_k_a = false, along_k_b = false;  ///< neighbouring threads read along k
  int vector_a = 1, vector_b = 1;             ///< elements read at once
  bool ragged_a = false, ragged_b = false;    ///< read from any address, not only aligned ones
  bool lanes_are_columns = true;              ///< neighbours along the domain's channels are neighbouring columns
  bool one_tap = true;                        ///< no window positions to compute
  bool is_conv = false;
  bool sums_pixels = false;    ///< a filter gradient: B reads windows, not A
  const Sums* sums = nullptr;  ///< that are rounded on the way; null: f32
};

Product product_of(const Plan& plan, const Kernel& kernel);

/// The function merged(sum, group) of rounded sums, with these words before its type.
std::string merged_function(const Sums& sums, const std::string& qualifiers);

Math math_of(const Head& product);
/// Whether a head multiplies two matrices of 8-bit floats.
bool multiplies_f8(const Plan& plan, const Head& head);
/// Whether it multiplies two matrices of bytes.
bool multiplies_bytes(const Plan& plan, const Head& head);
/// How a head's operands are multiplied: by f32 multiply-adds, by tensor cores, or as f32 numbers of two parts, by
/// three products of tensor cores in tf32.
enum class Multiplier : std::uint8_t { multiply_adds, tensor_cores, tensor_cores_in_parts };
/// Parts under `fp32`, where the chip gains by them. Operands of 8-bit floats meet on tensor cores but under `ieee`.
Multiplier multiplier_of(const Plan& plan, const Head& head, const Chip& chip);

}  // namespace nixie::cuda
