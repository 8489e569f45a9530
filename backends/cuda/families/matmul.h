// Matrix products through cuBLASLt.
#pragma once

#include <memory>
#include <optional>

#include "nixie/backends/cuda/run/work.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// A product as BLAS sees it, column-major: D [rows, columns] = op(A) op(B), possibly + a bias for each row and
/// without what is below zero, batched.
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
  bool relu = false;             // what is below zero becomes zero, after the bias
};

/// The kernel as one call of the library, if it is one: a product of f64, f32, f16 or bf16 matrices stored plainly or,
/// but for f64, after adding a bias along its last axis, after a ReLU, or after both.
std::optional<BlasProblem> as_blas(const Plan& plan, const Kernel& kernel);

/// Kernel k of a plan whose memory is laid out, one that as_blas takes with a ReLU, becomes two: the call without the
/// ReLU, and the ReLU in place. Those that waited for kernel k wait for the latter.
void split_relu(Plan& plan, std::size_t k);

/// Asks the library for an algorithm; null for a problem with a ReLU where none is known to pass NaN on: all make zero
/// of it, or memory is too short to try them. Needs a current device.
std::unique_ptr<Work> make_blas_work(const Plan& plan, const BlasProblem& problem);

}  // namespace nixie::cuda
