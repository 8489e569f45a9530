// Recording: a backend that times each group of a plan within the plan.
#pragma once

#include <list>
#include <memory>

#include "nixie/backends/cut_plan.h"

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
class RecordingBackend final : public Backend {
 public:
  explicit RecordingBackend(std::shared_ptr<Backend> backend);

  void record(bool on) { *is_on_ = on; }
  /// The records of each plan that ran while recording was on.
  const std::list<PlanRecord>& records() const { return *records_; }

  std::string name() const override { return backend_->name(); }
  Target target() const override { return backend_->target(); }
  void lower(Plan& plan) override { backend_->lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return backend_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override {
    backend_->upload(from, to, size_bytes);
  }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override { backend_->download(from, to, size_bytes); }
  void synchronize() override { backend_->synchronize(); }
  MemoryPlace memory_place() const override { return backend_->memory_place(); }
  void wait_for(void* stream) override { backend_->wait_for(stream); }
  void be_awaited_by(void* stream) override { backend_->be_awaited_by(stream); }
  std::unique_ptr<Stopwatch> stopwatch() override { return backend_->stopwatch(); }
  std::unique_ptr<Executable> compile(const Plan& plan) override;

 private:
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<bool> is_on_;
  std::shared_ptr<std::list<PlanRecord>> records_;
};

}  // namespace nixie
