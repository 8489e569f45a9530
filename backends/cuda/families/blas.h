// Matrix products through cuBLASLt.
#pragma once

#include <optional>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// A product in BLAS's terms, column-major and batched: D [rows, columns] = op(A) op(B), optionally plus a bias for
/// each row, optionally with a ReLU.
struct BlasProblem {
  struct Matrix {
    int slot = 0;
    std::int64_t offset = 0;   // in elements
    bool transposed = false;   // stored transposed
    std::int64_t leading = 0;  // in elements
    std::int64_t batch_stride = 0;
    Dtype dtype = Dtype::f32;
  };
  std::int64_t rows = 0, columns = 0, inner = 0, batches = 1;
  Matrix a{}, b{}, d{};
  bool tf32 = false;             // f32 operands may be rounded to 10-bit mantissas
  std::optional<Access> bias{};  // one element per row
  bool relu = false;             // after the bias
};

/// Products of f64, f32, f16 or bf16 matrices, optionally (except
/// f64) with a bias along the last axis, a ReLU, or both.
const Family& blas();

/// The group's library call, if it is one.
const BlasProblem* blas_problem(const Group& group);

/// The ReLU of a product as an in-place kernel, to run after a call without ReLU.
Kernel relu_after(const Kernel& product);

}  // namespace nixie::cuda
