// The heads of kernels on the CPU: matmul, convolution, pooling, gather, scatter, scans, sorting and collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "nixie/backends/cpu/host/thread_pool.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cpu {

/// An operand of a head in memory.
struct BoundOperand {
  const std::byte* data;  ///< the element at position 0, the operand's offset applied
  Dtype dtype;
  const Shape& shape;
  const Strides& strides;  ///< in elements
};

/// The memory that takes a head's values.
struct HeadSink {
  std::byte* result;  ///< dense row-major over the kernel's domain, of the head's compute type (f32, f64 or i32)
  /// To be called by the worker that made it for each contiguous row-major piece of the result once its values are
  /// final, best while they are warm in cache: the rest of the kernel runs on it then and may overwrite the piece.
  /// The pieces together cover the result exactly once. May be empty.
  std::function<void(std::int64_t first, std::int64_t count)> finished;
};

/// Computes a head over the whole of the kernel's domain, in compute_dtype(head.dtype). The partition depends on shapes
/// alone, so the bits do not depend on the number of threads.
void run_head(const Head& head, const Shape& domain, std::span<const BoundOperand> operands, const HeadSink& sink,
              ThreadPool& pool);

}  // namespace nixie::cpu
