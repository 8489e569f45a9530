// CpuExecutable: a plan's kernels, run one after another, each on all threads.
#pragma once

#include <mutex>
#include <vector>

#include "nixie/backends/cpu/host/memory.h"
#include "nixie/backends/cpu/host/thread_pool.h"
#include "nixie/backends/cpu/stages/program.h"
#include "nixie/backends/cpu/stages/tile.h"

namespace nixie::cpu {

/// All executables of a backend share threads, and memory for values that live only during a run.
struct Shared {
  explicit Shared(int threads) : pool(threads) {}
  ThreadPool pool;
  std::mutex running;  // one run at a time: they share the memory below
  std::unique_ptr<HostBuffer> arena, head;

  /// Makes both at least this large; nothing in them outlives a run. Where they do not fit, neither is kept.
  void reserve(std::int64_t arena_bytes, std::int64_t head_bytes);
};

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const Plan& plan, std::shared_ptr<Shared> shared);
  void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override;
  /// Runs the kernels in another order that respects waits_for; for tests.
  void run_in_order(std::span<const int> order, std::span<const std::shared_ptr<Buffer>> externals,
                    std::span<const double> scalars);

 private:
  std::vector<std::byte*> addresses(std::span<const std::shared_ptr<Buffer>> externals) const;
  void run_kernel(const Program& program, std::span<std::byte* const> slots, std::span<const double> scalars);
  Bound bind(const Program& program, std::span<std::byte* const> slots, std::span<const double> scalars) const;
  void run_with_head(const Program& program, Bound& bound, std::span<std::byte* const> slots);

  Plan plan_;
  std::int64_t head_bytes_;
  std::vector<Program> programs_;
  std::shared_ptr<Shared> shared_;
};

/// Runs the stages of a kernel without a head.
void run_stages(const Bound& bound, ThreadPool& pool);
/// Runs the stages on row-major positions [first, first + count) of a kernel with a head; on the calling thread.
void run_stages_on(const Bound& bound, std::int64_t first, std::int64_t count);

}  // namespace nixie::cpu
