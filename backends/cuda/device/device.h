// Device: one GPU with its stream, memory and staging; shared by a backend, its buffers and executables.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/cuda/device/staging.h"
#include "nixie/core/graph/backend.h"

namespace nixie::cuda {

class Device : public std::enable_shared_from_this<Device> {
 public:
  /// Throws Fault::device with cause and remedy if there is no usable GPU.
  static std::shared_ptr<Device> open(int ordinal);

  /// Makes the device current for the calling thread, and keeps other threads off its stream while the lock exists.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> use() const {
    std::unique_lock lock(mutex_);
    CUDA_CHECK(cudaSetDevice(ordinal_));
    return lock;
  }
  /// The mutex that use() locks.
  std::recursive_mutex& mutex() const { return mutex_; }
  cudaStream_t stream() const { return stream_; }
  int ordinal() const { return ordinal_; }
  /// The device's model; kernels are compiled for its architecture.
  const Chip& chip() const { return chip_; }
  const std::string& name() const { return name_; }
  Staging& staging() { return staging_; }
  /// Stream-ordered memory; throws Fault::memory with the free bytes.
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes);
  /// The memory that can be allocated; waits for the device.
  std::int64_t free_bytes();

 private:
  explicit Device(int ordinal);
  void trim();

  mutable std::recursive_mutex mutex_;
  int ordinal_ = 0;
  Chip chip_;
  std::string name_;
  Stream stream_;
  Staging staging_;
};

}  // namespace nixie::cuda
