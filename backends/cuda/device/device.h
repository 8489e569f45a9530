// Device: one GPU with its stream, memory and staging; shared by a backend, its buffers and executables.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/cuda/device/staging.h"
#include "nixie/core/graph/backend.h"

namespace nixie::cuda {

/// While it exists a device is current for the calling thread; then the one before is again, if this process works on
/// that, too: to make another current would set it up. What fails here fails again in the calls in between.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0, ordinal_;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  /// Throws Fault::device with cause and remedy if there is no usable GPU.
  static std::shared_ptr<Device> open(int ordinal);

  /// While it exists the device is current for the calling thread, and other threads are kept off its stream.
  class [[nodiscard]] Use {
   public:
    explicit Use(const Device& device) : device_(device), lock_(device.mutex_), current_(device.ordinal_) {}
    ~Use() { device_.is_awaited_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const Device& device_;
    const std::lock_guard<std::recursive_mutex> lock_;
    const CurrentDevice current_;
  };
  Use use() const { return Use(*this); }
  /// Later work on the device's stream waits for the work given so far to another stream; and the other way round. To
  /// wait for the default stream, on which PyTorch works, is to work there from now on: what shares a stream needs no
  /// events.
  void wait_for(cudaStream_t other);
  void be_awaited_by(cudaStream_t other);
  /// Works on a stream of its own again, behind all work so far: nothing can be recorded on the default stream.
  void leave_default_stream();
  /// The mutex that use() locks.
  std::recursive_mutex& mutex() const { return mutex_; }
  cudaStream_t stream() const { return is_on_default_ ? nullptr : stream_.get(); }
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
  void order(cudaStream_t first, cudaStream_t then);
  void trim();

  mutable std::recursive_mutex mutex_;
  int ordinal_ = 0;
  Chip chip_;
  std::string name_;
  Stream stream_;
  bool is_on_default_ = false;
  Event reached_;  // a wait keeps what it was recorded for, so that one event serves all
  // Whether the stream of this number waits already for all work of ours, but for waits for its own.
  mutable bool is_awaited_ = false;
  unsigned long long awaiting_ = 0;
  Staging staging_;
};

}  // namespace nixie::cuda
