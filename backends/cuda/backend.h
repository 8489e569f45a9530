// The CUDA backend: compiles plans with NVRTC and replays each as one CUDA graph.
#pragma once

#include "nixie/core/graph/backend.h"

namespace nixie {

/// Opens a GPU of compute capability 8.0 or newer. Throws Fault::device, at once and with the remedy, without a usable
/// GPU, driver or library.
std::shared_ptr<Backend> make_cuda_backend(int device = 0);
/// The number of GPUs that this process sees; 0 where there is no driver.
int cuda_devices();

}  // namespace nixie
