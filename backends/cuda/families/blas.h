// Matrix products through cuBLASLt.
#pragma once

#include <optional>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// A product as BLAS sees it, column-major: D [rows, columns] = op(A) op(B), possibly + a bias for each row and
/// with a ReLU, batched.
struct BlasProblem {
  struct Matrix {
    int slot = 0;
    std::int64_t offset = 0;   // in elements
    bool transposed = false;   // as stored, against as used
    std::int64_t leading = 0;  // in elements
    std::int64_t batch_stride = 0;
    Dtype dtype = Dtype::f32;
  };
  std::int64_t rows = 0, columns = 0, inner = 0, batches = 1;
  Matrix a{}, b{}, d{};
  bool tf32 = false;             // f32 may be multiplied with 10-bit mantissas
  std::optional<Access> bias{};  // one element per row
  bool relu = false;             // after the bias
};

/// Products of f64, f32, f16 or bf16 matrices stored plainly or, but for f64, after adding a bias along the last axis,
/// after a ReLU, or after both.
const Family& blas();

/// The call that a group is, if the library computes it.
const BlasProblem* blas_problem(const Group& group);

/// The ReLU of a product that the library computes with one, as a kernel in place, for a call without.
Kernel relu_after(const Kernel& product);

}  // namespace nixie::cuda
