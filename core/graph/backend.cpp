// The default backend of a program, and the stopwatch of backends without a clock of their own.
#include "nixie/core/graph/backend.h"

#include <chrono>

namespace nixie {
namespace {

class HostStopwatch final : public Stopwatch {
 public:
  explicit HostStopwatch(Backend& backend) : backend_(backend) {}

  void mark() override {
    backend_.synchronize();
    marks_.push_back(std::chrono::steady_clock::now());
  }
  std::vector<double> intervals_ms() override {
    std::vector<double> intervals;
    for (std::size_t i = 1; i < marks_.size(); ++i)
      intervals.push_back(std::chrono::duration<double, std::milli>(marks_[i] - marks_[i - 1]).count());
    marks_.clear();
    return intervals;
  }

 private:
  Backend& backend_;
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

std::shared_ptr<Backend>& chosen() {
  static std::shared_ptr<Backend> backend;
  return backend;
}

}  // namespace

std::unique_ptr<Stopwatch> Backend::stopwatch() { return std::make_unique<HostStopwatch>(*this); }

std::shared_ptr<Executable> Backend::reused(const std::string& structure,
                                            const std::function<std::unique_ptr<Executable>()>& make) {
  {
    const std::lock_guard lock(keeping_);
    if (const auto* known = kept_.find(structure)) return *known;
  }
  std::shared_ptr<Executable> made = make();  // unlocked: others compile at the same time
  const std::lock_guard lock(keeping_);
  if (const auto* known = kept_.find(structure)) return *known;  // another thread made it meanwhile
  return kept_.add(structure, std::move(made));
}

Backend& default_backend() {
  check(chosen() != nullptr, "no default backend: call set_default_backend(make_backend(\"cpu\")) first");
  return *chosen();
}

void set_default_backend(std::shared_ptr<Backend> backend) { chosen() = std::move(backend); }

}  // namespace nixie
