// GroupWork: one group of a plan, ready to be enqueued on a stream.
#pragma once

#include <cstdint>
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

}  // namespace nixie::cuda
