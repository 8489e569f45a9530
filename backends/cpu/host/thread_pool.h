// ThreadPool: runs the numbered parts of one piece of work on a fixed set of threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nixie::cpu {

/// Threads that share out parts. Which thread runs a part is open, so callers cut work by its size alone, never by
/// `threads()`: then results have the same bits for any number of threads.
class ThreadPool {
 public:
  /// The calling thread counts as one; 0 takes all the machine has.
  /// Throws NoThread.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  /// Calls `function(part)` for each part in [0, parts) and returns when all are done. The first exception ends the
  /// work early and is thrown here. A call from inside a part runs inline.
  void parallel_for(std::int64_t parts, const std::function<void(std::int64_t part)>& function);

 private:
  void work();
  bool run_one_part();
  void run_part(std::int64_t part);
  void wait_until_done();

  ThreadPool() = default;

  int spins_ = 0;
  std::mutex submit_;  // one piece of work at a time

  // Written before `ticket_` announces the work, read after a part of it was claimed.
  const std::function<void(std::int64_t)>* function_ = nullptr;
  std::uint32_t parts_ = 0;
  // Generation in the high half, parts nobody claimed yet in the low half. A claim names the generation, so a thread
  // that wakes late can never take a part of work that is over.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false}, failed_{false}, stopping_{false};
  std::mutex mutex_;  // guards the sleeping and `error_`
  std::condition_variable wake_, done_;
  std::exception_ptr error_;
  std::vector<std::jthread> workers_;
};

}  // namespace nixie::cpu
