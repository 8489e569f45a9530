// The CUDA backend: opens a device and makes its buffers and executables.
#include "nixie/backends/cuda/backend.h"

#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/device/libraries.h"
#include "nixie/backends/cuda/device/stopwatch.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/run/executable.h"
#include "nixie/backends/settings/environment.h"
#include "nixie/core/base/integer_math.h"

namespace nixie {
namespace cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device) : device_(Device::open(device)) { nvrtc(); }

  std::string name() const override { return "cuda"; }
  Target target() const override { return target_of(chip_to_choose_for(device_->chip()), winograd_is_allowed()); }
  void lower(Plan& plan) override { cuda::lower(plan, chip_to_choose_for(device_->chip()), winograd_is_allowed()); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return device_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override {
    const auto lock = device_->use();
    device_->staging().copy(from, to.address(), size_bytes, device_->stream());
  }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override {
    const auto lock = device_->use();
    CUDA_CHECK(cudaMemcpyAsync(to, from.address(), at(size_bytes), cudaMemcpyDeviceToHost, device_->stream()));
    CUDA_CHECK(cudaStreamSynchronize(device_->stream()));
  }
  void synchronize() override {
    const auto lock = device_->use();
    CUDA_CHECK(cudaStreamSynchronize(device_->stream()));
  }
  MemoryPlace memory_place() const override {
    return {.device_type = 2, .device_index = device_->ordinal(), .alignment = 256};
  }
  void wait_for(void* stream) override { device_->wait_for(static_cast<cudaStream_t>(stream)); }
  void be_awaited_by(void* stream) override { device_->be_awaited_by(static_cast<cudaStream_t>(stream)); }
  std::unique_ptr<Stopwatch> stopwatch() override { return make_stopwatch(device_); }
  std::unique_ptr<Executable> compile(const Plan& plan) override { return make_executable(device_, plan); }

 private:
  std::shared_ptr<Device> device_;
};

}  // namespace
}  // namespace cuda

int cuda_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::shared_ptr<Backend> make_cuda_backend(int device) { return std::make_shared<cuda::CudaBackend>(device); }

}  // namespace nixie
