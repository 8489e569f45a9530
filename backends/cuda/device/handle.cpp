// How failed CUDA calls are reported.
#include "nixie/backends/cuda/device/handle.h"

namespace nixie::cuda {
namespace {

bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
      return true;
    default:  // later calls may succeed
      return false;
  }
}

}  // namespace

void cuda_failed(cudaError_t error, const char* expression) {
  cudaGetLastError();  // an error that is not sticky is reported once
  if (is_sticky(error))
    throw StickyError(fmt::format("cuda: {} ({})", cudaGetErrorString(error), cudaGetErrorName(error)));
  fail(error == cudaErrorMemoryAllocation ? Fault::memory : Fault::device, "cuda: ", cudaGetErrorString(error), " (",
       cudaGetErrorName(error), ") in ", expression);
}

}  // namespace nixie::cuda
