// Marks are events; an interval is the device's time between two of them. The device begins when the host has given it
// many intervals' work, or takes long to: a kernel of a few microseconds would otherwise wait for its launch.
#include "nixie/backends/cuda/device/stopwatch.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace nixie::cuda {
namespace {

constexpr std::size_t kAtOnce = 64;                // intervals whose work is given to the device before it begins
constexpr std::chrono::milliseconds kLongest(10);  // that the device waits for that, as the host may wait for it

/// What the device's stream waits for.
class Hold {
 public:
  explicit Hold(cudaStream_t stream) {
    auto shared = std::make_unique<std::shared_ptr<Flag>>(is_over_);
    CUDA_CHECK(cudaLaunchHostFunc(stream, wait, shared.get()));
    shared.release();  // by `wait`
  }
  ~Hold() { *is_over_ = true; }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  using Flag = std::atomic<bool>;
  static void wait(void* shared) {
    const std::unique_ptr<std::shared_ptr<Flag>> is_over(static_cast<std::shared_ptr<Flag>*>(shared));
    const auto end = std::chrono::steady_clock::now() + kLongest;
    while (!**is_over && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(10));
  }

  std::shared_ptr<Flag> is_over_ = std::make_shared<Flag>(false);
};

class CudaStopwatch final : public Stopwatch {
 public:
  explicit CudaStopwatch(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  void mark() override {
    const auto lock = device_->use();
    Mark& mark = marks_.emplace_back();
    record(mark.end);
    if (marks_.size() % kAtOnce != 1) return;
    hold_.reset();
    hold_.emplace(device_->stream());
    record(mark.begin.emplace());
  }
  std::vector<double> intervals_ms() override {
    const auto lock = device_->use();
    hold_.reset();
    if (!marks_.empty()) CUDA_CHECK(cudaEventSynchronize(marks_.back().end));
    std::vector<double> intervals;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      const Mark& from = marks_[i - 1];
      float milliseconds = 0;
      CUDA_CHECK(cudaEventElapsedTime(&milliseconds, from.begin ? *from.begin : from.end, marks_[i].end));
      intervals.push_back(static_cast<double>(milliseconds));
    }
    marks_.clear();
    return intervals;
  }

 private:
  /// The end of an interval, and the beginning of the next where the device waits between the two.
  struct Mark {
    Event end = {};
    std::optional<Event> begin = {};
  };
  void record(Event& event) {
    CUDA_CHECK(cudaEventCreate(event.out()));
    CUDA_CHECK(cudaEventRecord(event, device_->stream()));
  }

  std::shared_ptr<Device> device_;
  std::vector<Mark> marks_;
  std::optional<Hold> hold_;
};

}  // namespace

std::unique_ptr<Stopwatch> make_stopwatch(std::shared_ptr<Device> device) {
  return std::make_unique<CudaStopwatch>(std::move(device));
}

}  // namespace nixie::cuda
