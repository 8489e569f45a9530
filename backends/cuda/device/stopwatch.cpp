// Marks are events; an interval is the device's time between two of them.
#include "nixie/backends/cuda/device/stopwatch.h"

namespace nixie::cuda {
namespace {

class CudaStopwatch final : public Stopwatch {
 public:
  explicit CudaStopwatch(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  void mark() override {
    const auto lock = device_->use();
    CUDA_CHECK(cudaEventCreate(marks_.emplace_back().out()));
    CUDA_CHECK(cudaEventRecord(marks_.back(), device_->stream()));
  }
  std::vector<double> intervals_ms() override {
    const auto lock = device_->use();
    if (!marks_.empty()) CUDA_CHECK(cudaEventSynchronize(marks_.back()));
    std::vector<double> intervals;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      float milliseconds = 0;
      CUDA_CHECK(cudaEventElapsedTime(&milliseconds, marks_[i - 1], marks_[i]));
      intervals.push_back(static_cast<double>(milliseconds));
    }
    marks_.clear();
    return intervals;
  }

 private:
  std::shared_ptr<Device> device_;
  std::vector<Event> marks_;
};

}  // namespace

std::unique_ptr<Stopwatch> make_stopwatch(std::shared_ptr<Device> device) {
  return std::make_unique<CudaStopwatch>(std::move(device));
}

}  // namespace nixie::cuda
