// Resets the device and replays plans, waiting for every kernel.
#include "backends/cuda/blame.h"

#include <algorithm>

#include "backends/cuda/executable.h"

namespace nixie::cuda {
namespace {

constexpr std::size_t kMostPlans = 8;

// Throws where a kernel of the plan fails.
void replay(const Plan& plan, const std::shared_ptr<Device>& device) {
  std::vector<std::shared_ptr<Buffer>> externals;
  for (int slot : plan.externals) {
    const std::int64_t bytes = plan.slots[static_cast<std::size_t>(slot)].size_bytes();
    externals.push_back(device->allocate(bytes));
    CUDA_CHECK(cudaMemsetAsync(externals.back()->address(), 0, static_cast<std::size_t>(bytes), device->stream()));
  }
  make_executable(device, plan, Waiting::after_every_kernel)->run(externals, plan.scalars);
}

}  // namespace

void Suspects::add(const std::shared_ptr<const Plan>& plan) {
  if (!plans_.empty() && plans_.front() == plan) return;
  std::erase(plans_, plan);
  plans_.push_front(plan);
  if (plans_.size() > kMostPlans) plans_.pop_back();
}

void Suspects::find(const StickyError& error, int ordinal) const {
  device_lost = true;
  std::string why = "no kernel fails alone";
  try {
    CUDA_CHECK(cudaDeviceReset());
    const std::shared_ptr<Device> fresh = Device::open(ordinal);
    for (const auto& plan : plans_) replay(*plan, fresh);
  } catch (const KernelFailure& failure) {
    fail(Fault::device, failure.what());
  } catch (const Error& other) {  // the device does not come back: what failed first counts
    why = other.what();
  }
  fail(Fault::device, error.what(), " in one of the last steps (", why,
       "); run again with NIXIE_SYNC=1 to learn in which kernel");
}

}  // namespace nixie::cuda
