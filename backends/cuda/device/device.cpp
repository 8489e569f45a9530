// Opens a GPU; allocates and stages memory.
#include "nixie/backends/cuda/device/device.h"

#include <cuda.h>

#include <algorithm>

#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr int kOldestMajor = 8;

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(std::shared_ptr<Device> device, void* memory, std::int64_t size_bytes)
      : Buffer(size_bytes), device_(std::move(device)), memory_(memory) {}
  ~DeviceBuffer() override {
    if (!memory_) return;
    const std::lock_guard lock(device_->mutex());     // no free joins a graph that another thread captures
    const CurrentDevice current(device_->ordinal());  // each has a default stream
    cudaFreeAsync(memory_, device_->stream());        // after all work ordered so far
  }
  void* address() override { return memory_; }

 private:
  std::shared_ptr<Device> device_;
  void* memory_;
};

// No two streams have one, whenever they exist; their handles may.
unsigned long long number_of(cudaStream_t stream) {
  unsigned long long number = 0;
  CUDA_CHECK(cudaStreamGetId(stream, &number));
  return number;
}

bool is_default(cudaStream_t stream) { return stream == nullptr || stream == cudaStreamLegacy; }

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

[[noreturn]] void fail_without_driver() {
  int driver = 0;  // stays 0 where there is none
  cudaDriverGetVersion(&driver);
  const std::string found = driver == 0 ? "no NVIDIA driver was found"
                                        : "the NVIDIA driver is too old: it supports CUDA " + version_text(driver);
  fail(Fault::device, "cuda: ", found, ", this program needs one for CUDA ", version_text(CUDART_VERSION),
       " or newer: install it (nvidia-smi shows the present one), or use backend: cpu");
}

// Whether this process has work or memory on a device.
bool is_set_up(int ordinal) {
  static const auto state = driver_function<decltype(cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState");
  unsigned int flags = 0;
  int active = 0;
  return state(ordinal, &flags, &active) == CUDA_SUCCESS && active != 0;
}

}  // namespace

CurrentDevice::CurrentDevice(int ordinal) : ordinal_(ordinal) {
  cudaGetDevice(&before_);
  cudaSetDevice(ordinal_);
}
CurrentDevice::~CurrentDevice() {
  if (before_ != ordinal_ && is_set_up(before_)) cudaSetDevice(before_);
}

std::shared_ptr<Device> Device::open(int ordinal) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary) fail_without_driver();
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    fail(Fault::device, "cuda: no NVIDIA GPU found: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use backend: cpu");
  if (error != cudaSuccess) cuda_failed(error, "cudaGetDeviceCount");
  if (ordinal < 0 || ordinal >= count)
    fail(Fault::device, "cuda: there is no device ", ordinal, ", only 0 to ", count - 1);
  return std::shared_ptr<Device>(new Device(ordinal));
}

Device::Device(int ordinal) : ordinal_(ordinal) {
  const auto lock = use();
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
  name_ = properties.name;
  if (properties.major < kOldestMajor)
    fail(Fault::device, "cuda: ", name_, " has compute capability ", properties.major, ".", properties.minor,
         ", expected 8.0 or newer (an A100, RTX 30 or later); use backend: cpu");
  chip_ = device_chip(architecture_of(properties.major, properties.minor), properties.multiProcessorCount,
                      static_cast<std::int64_t>(properties.sharedMemPerBlockOptin), properties.l2CacheSize);
  CUDA_CHECK(cudaStreamCreateWithFlags(stream_.out(), cudaStreamNonBlocking));
  CUDA_CHECK(cudaEventCreateWithFlags(reached_.out(), cudaEventDisableTiming));
  cudaMemPool_t pool;
  CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, ordinal));
  std::uint64_t keep = ~std::uint64_t{0};  // freed memory stays with us: allocation does not wait for the device
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
}

void Device::order(cudaStream_t first, cudaStream_t then) {
  const CurrentDevice current(ordinal_);
  CUDA_CHECK(cudaEventRecord(reached_, first));
  CUDA_CHECK(cudaStreamWaitEvent(then, reached_, 0));
}

void Device::wait_for(cudaStream_t other) {
  const std::lock_guard lock(mutex_);
  if (is_default(other)) {
    if (!is_on_default_) order(stream_, nullptr);
    is_on_default_ = true;
    is_awaited_ = false;  // by a third stream, which knows nothing of their work here
    return;
  }
  leave_default_stream();
  order(other, stream_);
  is_awaited_ = is_awaited_ && number_of(other) == awaiting_;
}

void Device::leave_default_stream() {
  const std::lock_guard lock(mutex_);
  if (!is_on_default_) return;
  order(nullptr, stream_);
  is_on_default_ = is_awaited_ = false;
}

// Arrays that come and go without work of ours wait once.
void Device::be_awaited_by(cudaStream_t other) {
  const std::lock_guard lock(mutex_);
  if (is_on_default_ && is_default(other)) return;
  const unsigned long long number = number_of(other);
  if (is_awaited_ && number == awaiting_) return;
  order(stream(), other);
  is_awaited_ = true, awaiting_ = number;
}

// Memory that freed buffers of other sizes left in the pool.
void Device::trim() {
  cudaMemPool_t pool;
  CUDA_CHECK(cudaStreamSynchronize(stream()));
  CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, ordinal_));
  CUDA_CHECK(cudaMemPoolTrimTo(pool, 0));
}

std::int64_t Device::free_bytes() {
  const auto lock = use();
  trim();
  std::size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

std::shared_ptr<Buffer> Device::allocate(std::int64_t size_bytes) {
  const auto lock = use();
  void* memory = nullptr;
  // Kernels may read whole pieces of 16 bytes where they need a part.
  const auto bytes = static_cast<std::size_t>(round_up(std::max<std::int64_t>(size_bytes, 1), 16));
  cudaError_t error = cudaMallocAsync(&memory, bytes, stream());
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    trim();
    error = cudaMallocAsync(&memory, bytes, stream());
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail(Fault::memory, "cuda: out of memory: ", size_bytes >> 20, " MiB asked for, ", free_bytes() >> 20,
         " MiB free on ", name_);
  }
  CUDA_CHECK(error);
  return std::make_shared<DeviceBuffer>(shared_from_this(), memory, size_bytes);
}

}  // namespace nixie::cuda
