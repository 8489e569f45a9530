// How failed CUDA calls are reported.
#include "backends/cuda/handle.h"

namespace nixie::cuda {

void cuda_failed(cudaError_t error, const char* expression) {
  cudaGetLastError();  // what is not sticky is reported once
  fail(error == cudaErrorMemoryAllocation ? Fault::memory : Fault::device, "cuda: ", cudaGetErrorString(error), " (",
       cudaGetErrorName(error), ") in ", expression);
}

}  // namespace nixie::cuda
