// GroupWork: one group of a plan, ready to be enqueued on a stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nixie/backends/cuda/device/handle.h"

namespace nixie::cuda {

/// Device addresses when work is enqueued.
struct Addresses {
  std::vector<char*> slots;
  char* scalars = nullptr;
  char* scratch = nullptr;  ///< this work's own
};

class GroupWork {
 public:
  virtual ~GroupWork() = default;
  virtual std::int64_t scratch_bytes() const = 0;
  virtual std::string variant() const = 0;  ///< the program that runs it, for traces
  virtual void enqueue(const Addresses& addresses, cudaStream_t stream) const = 0;
};

/// Works of one group, one after another, in the same scratch memory.
class WorksInTurn final : public GroupWork {
 public:
  explicit WorksInTurn(std::vector<std::unique_ptr<GroupWork>> works) : works_(std::move(works)) {}
  std::int64_t scratch_bytes() const override {
    std::int64_t most = 0;
    for (const auto& work : works_) most = std::max(most, work->scratch_bytes());
    return most;
  }
  std::string variant() const override {
    std::string text;
    for (const auto& work : works_) text += (text.empty() ? "" : ", then ") + work->variant();
    return text;
  }
  void enqueue(const Addresses& addresses, cudaStream_t stream) const override {
    for (const auto& work : works_) work->enqueue(addresses, stream);
  }

 private:
  std::vector<std::unique_ptr<GroupWork>> works_;
};

}  // namespace nixie::cuda
