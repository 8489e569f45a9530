// The GPU of tests that need one.
#pragma once

#include <memory>

#include "nixie/backends/cuda/backend.h"
#include "nixie/core/graph/backend.h"

namespace nixie {

/// A new CUDA backend; null on a machine without a GPU.
inline std::shared_ptr<Backend> cuda_or_null() {
  try {
    return make_cuda_backend();
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace nixie
