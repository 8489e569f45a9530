// The device's stream beside others: each waits for the work that it must, though waits that change nothing are left
// out.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "nixie/backends/cuda/device/device.h"

namespace nixie::cuda {
namespace {

std::shared_ptr<Device> device_or_null() {
  try {
    return Device::open(0);
  } catch (const Error&) {
    return nullptr;
  }
}

// Work that a stream does not finish before `end`.
class Work {
 public:
  explicit Work(cudaStream_t stream) {
    CUDA_CHECK(cudaLaunchHostFunc(
        stream, [](void* self) { static_cast<Work*>(self)->end_.get_future().wait(); }, this));
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  void end() { end_.set_value(); }

 private:
  std::promise<void> end_;
};

bool is_done(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaSuccess; }

Stream other_stream() {
  Stream stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(stream.out(), cudaStreamNonBlocking));
  return stream;
}

TEST(CudaDevice, StreamsWaitForWork) {
  const auto device = device_or_null();
  if (!device) GTEST_SKIP() << "no GPU";
  const Stream a = other_stream(), b = other_stream();
  device->be_awaited_by(a);
  for (int round = 0; round < 2; ++round) {  // work of ours since `a` waited
    std::optional<Work> ours;
    {
      const auto in_use = device->use();
      ours.emplace(device->stream());
    }
    device->be_awaited_by(a);
    device->be_awaited_by(a);
    EXPECT_FALSE(is_done(a));
    EXPECT_TRUE(is_done(b));
    ours->end();
    CUDA_CHECK(cudaStreamSynchronize(a));
  }
  {  // work of a third stream, for which ours waits
    Work third(b);
    device->wait_for(b);
    device->be_awaited_by(a);
    EXPECT_FALSE(is_done(a));
    third.end();
    CUDA_CHECK(cudaStreamSynchronize(a));
  }
  {  // its own work, for which ours waits
    Work own(a);
    device->wait_for(a);
    device->be_awaited_by(a);
    EXPECT_FALSE(is_done(device->stream()));
    own.end();
    CUDA_CHECK(cudaStreamSynchronize(device->stream()));
  }
  device->be_awaited_by(b);
  CUDA_CHECK(cudaStreamSynchronize(b));
}

TEST(CudaDevice, LeavesTheThreadsDeviceCurrent) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) GTEST_SKIP() << "fewer than two GPUs";
  const auto theirs = Device::open(1), ours = Device::open(0);
  const auto current = [] {
    int device = -1;
    CUDA_CHECK(cudaGetDevice(&device));
    return device;
  };
  CUDA_CHECK(cudaSetDevice(1));
  {
    const auto in_use = ours->use();
    EXPECT_EQ(current(), 0);
  }
  EXPECT_EQ(current(), 1);
  {
    const auto memory = ours->allocate(64);
    ours->wait_for(nullptr);
    ours->leave_default_stream();
  }
  EXPECT_EQ(current(), 1);
  CUDA_CHECK(cudaSetDevice(0));
}

TEST(CudaDevice, WorksOnTheDefaultStreamWithOthers) {
  const auto device = device_or_null();
  if (!device) GTEST_SKIP() << "no GPU";
  const Stream a = other_stream();
  for (int round = 0; round < 2; ++round) {
    std::optional<Work> before;
    {
      const auto in_use = device->use();
      before.emplace(device->stream());
    }
    device->wait_for(round == 0 ? nullptr : cudaStreamLegacy);
    device->wait_for(nullptr);
    EXPECT_EQ(device->stream(), nullptr);
    EXPECT_FALSE(is_done(nullptr)) << "it waits for what was given to the stream of its own";
    before->end();
    CUDA_CHECK(cudaStreamSynchronize(nullptr));

    Work theirs(nullptr);
    device->be_awaited_by(nullptr);
    device->be_awaited_by(a);
    EXPECT_FALSE(is_done(a)) << "a third stream waits for the work there";
    theirs.end();
    CUDA_CHECK(cudaStreamSynchronize(a));

    Work last(nullptr);
    device->wait_for(a);
    EXPECT_NE(device->stream(), nullptr);
    EXPECT_FALSE(is_done(device->stream())) << "its own stream waits for what was given to the default stream";
    last.end();
    CUDA_CHECK(cudaStreamSynchronize(device->stream()));
    const std::shared_ptr<Buffer> memory = device->allocate(1 << 20);
    device->wait_for(nullptr);
    CUDA_CHECK(cudaMemsetAsync(memory->address(), 1, 1 << 20, device->stream()));
    device->leave_default_stream();
    EXPECT_NE(device->stream(), nullptr);
  }
}

}  // namespace
}  // namespace nixie::cuda
#endif
