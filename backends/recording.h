// Recording: a backend that times each group of a plan within the plan.
#pragma once

#include <list>
#include <memory>

#include "nixie/backends/cut_plan.h"
#include "nixie/core/graph/forwarding_backend.h"

namespace nixie {

/// A group of a plan, and the milliseconds of each of its runs by the backend's clock.
struct GroupRecord {
  PlanPiece piece;
  std::string algorithm = {};  ///< Executable::algorithms
  std::vector<double> ms = {};
};
/// The groups of one plan, in order.
using PlanRecord = std::vector<GroupRecord>;

/// Wraps another backend; while `record` is on, plans run group by group, with a clock mark after each.
class RecordingBackend final : public ForwardingBackend {
 public:
  explicit RecordingBackend(std::shared_ptr<Backend> backend);

  void record(bool on) { *is_on_ = on; }
  /// The records of each plan that ran while recording was on.
  const std::list<PlanRecord>& records() const { return *records_; }

  std::unique_ptr<Executable> compile(const Plan& plan) override;

 private:
  std::shared_ptr<bool> is_on_;
  std::shared_ptr<std::list<PlanRecord>> records_;
};

}  // namespace nixie
