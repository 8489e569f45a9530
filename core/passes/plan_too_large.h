// The error report of a plan that does not fit the device: its largest tensors, and the batch that would fit.
#pragma once

#include <functional>
#include <string>

#include "nixie/core/base/error.h"
#include "nixie/core/graph/plan.h"

namespace nixie {

/// The bytes that a backend needs beside the arena of a plan whose batch were this.
using BytesOfBatch = std::function<std::int64_t(std::int64_t batch)>;

/// The largest batch below the plan's whose arena and scratch memory fit `free_bytes`, found by planning memory again;
/// 0 if none does.
std::int64_t largest_batch(const Plan& plan, const BytesOfBatch& scratch, std::int64_t free_bytes);

/// A plan that does not fit. One line: the memory that the step needs, the free memory, its three largest tensors, and
/// a batch that should fit: a program takes more than its plans.
class PlanTooLarge final : public Error {
 public:
  PlanTooLarge(const std::string& backend, const Plan& plan, const BytesOfBatch& scratch, std::int64_t free_bytes);
  std::int64_t fitting_batch() const { return fitting_batch_; }  ///< 0: none
  const std::string& need() const { return need_; }              ///< the line without the batch

 private:
  PlanTooLarge(const std::string& need, const std::string& advice, std::int64_t fitting_batch)
      : Error(Fault::memory, need + advice), need_(need), fitting_batch_(fitting_batch) {}
  static PlanTooLarge report(const std::string& backend, const Plan& plan, const BytesOfBatch& scratch,
                             std::int64_t free_bytes);
  std::string need_;
  std::int64_t fitting_batch_;
};

}  // namespace nixie
