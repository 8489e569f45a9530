// Blame: which kernel it was, after a failure that shows only when somebody waits.
#pragma once

#include <deque>
#include <memory>

#include "backends/cuda/handle.h"
#include "core/plan.h"

namespace nixie::cuda {

/// Remembers the plans that were given to a device since it was last known to be well.
class Suspects {
 public:
  void add(const std::shared_ptr<const Plan>& plan);
  void clear() { plans_.clear(); }

  /// Gives the device up, and runs the plans once more on a fresh one, kernel by kernel, with memory of zeros. Throws
  /// the error with the name of the kernel that fails so too, or with how to find it. The program can only end.
  [[noreturn]] void find(const StickyError& error, int ordinal) const;

 private:
  std::deque<std::shared_ptr<const Plan>> plans_;  // latest first
};

}  // namespace nixie::cuda
