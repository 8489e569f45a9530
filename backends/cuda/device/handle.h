// Handle owns one C handle; CUDA_CHECK turns a failed CUDA call into an Error that names it.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "nixie/core/base/error.h"

namespace nixie::cuda {

/// Owns a handle of type T and destroys it by `destroy`. Movable.
template <class T, auto destroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, T{})) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_) destroy(value_);
  }
  T get() const { return value_; }
  operator T() const { return value_; }
  /// The address for a C function that writes a new handle; the old one is destroyed.
  T* out() {
    if (value_) destroy(std::exchange(value_, T{}));
    return &value_;
  }

 private:
  T value_{};
};

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;
using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using Library = Handle<cudaLibrary_t, cudaLibraryUnload>;

/// A kernel failed, for example at an illegal address, and every
/// later call fails, too. The next call that waits reports it.
class StickyError : public Error {
 public:
  explicit StickyError(const std::string& cause)
      : Error(Fault::device,
              cause + ": in a kernel that was not waited for; run again with NIXIE_SYNC=1 to learn in which"),
        cause_(cause) {}
  const std::string& cause() const { return cause_; }

 private:
  std::string cause_;
};

/// Throws: Fault::memory for exhausted memory, a StickyError, else Fault::device.
[[noreturn]] void cuda_failed(cudaError_t error, const char* expression);

}  // namespace nixie::cuda

#define CUDA_CHECK(expression)                                                       \
  do {                                                                               \
    if (const cudaError_t error_ = (expression); error_ != cudaSuccess) [[unlikely]] \
      ::nixie::cuda::cuda_failed(error_, #expression);                               \
  } while (false)

namespace nixie::cuda {

/// A function of the driver, which is found at run time.
template <class Function>
Function* driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  check(result == cudaDriverEntryPointSuccess, "cuda: the driver lacks ", name, ": install a newer driver");
  return reinterpret_cast<Function*>(found);
}

}  // namespace nixie::cuda
