// ThreadPool: parts are claimed from one atomic ticket; idle threads spin briefly, then sleep.
#include "nixie/backends/cpu/host/thread_pool.h"

#include <algorithm>
#include <limits>

#include "nixie/core/base/error.h"
#include "nixie/core/base/threads.h"

namespace nixie::cpu {
namespace {

thread_local bool inside_a_part = false;

// About 30 us: longer than the pause between two kernels of a step, shorter than anyone notices.
constexpr int kSpins = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

std::uint32_t unclaimed(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket); }

}  // namespace

// Once the delegated constructor is through, the destructor ends whatever threads were started before one failed.
ThreadPool::ThreadPool(int threads) : ThreadPool() {
  const int machine = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  check(threads >= 0 && threads <= 4096, "cpu: ", threads, " threads asked for, expected 0 (all) to 4096");
  const int count = threads == 0 ? machine : threads;
  spins_ = count <= machine ? kSpins : 0;  // spinning threads would hold up those that work
  start_threads(workers_, "cpu", count - 1, [this](const std::stop_token&) { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  workers_.clear();
}

void ThreadPool::parallel_for(std::int64_t parts, const std::function<void(std::int64_t)>& function) {
  if (parts <= 1 || workers_.empty() || inside_a_part) {
    for (std::int64_t part = 0; part < parts; ++part) function(part);
    return;
  }
  check(parts <= std::numeric_limits<std::uint32_t>::max(), "cpu: ", parts, " parts are too many for one call");
  const std::lock_guard submit(submit_);
  function_ = &function;
  parts_ = static_cast<std::uint32_t>(parts);
  failed_ = false;
  unfinished_ = parts_;
  const std::uint64_t generation = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  ticket_ = generation << 32 | parts_;
  if (const int sleepers = sleepers_; sleepers > 0) {
    { const std::lock_guard lock(mutex_); }  // a thread between its last look and its sleep is asleep after this
    for (std::int64_t i = std::min<std::int64_t>(sleepers, parts - 1); i > 0; --i) wake_.notify_one();
  }
  while (run_one_part()) {
  }
  wait_until_done();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool ThreadPool::run_one_part() {
  std::uint64_t ticket = ticket_;
  while (unclaimed(ticket) > 0)
    if (ticket_.compare_exchange_weak(ticket, ticket - 1)) {
      run_part(parts_ - unclaimed(ticket));
      return true;
    }
  return false;
}

void ThreadPool::run_part(std::int64_t part) {
  if (!failed_) {
    inside_a_part = true;
    try {
      (*function_)(part);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed_) error_ = std::current_exception();
      failed_ = true;
    }
    inside_a_part = false;
  }
  if (--unfinished_ == 0 && caller_sleeps_) {
    { const std::lock_guard lock(mutex_); }
    done_.notify_one();
  }
}

void ThreadPool::wait_until_done() {
  for (int spin = 0; spin < spins_; ++spin) {
    if (unfinished_ == 0) return;
    pause();
  }
  std::unique_lock lock(mutex_);
  caller_sleeps_ = true;
  done_.wait(lock, [this] { return unfinished_ == 0; });
  caller_sleeps_ = false;
}

void ThreadPool::work() {
  int idle = 0;
  while (!stopping_) {
    if (run_one_part()) {
      idle = 0;
    } else if (++idle < spins_) {
      pause();
    } else {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, [this] { return stopping_ || unclaimed(ticket_) > 0; });
      --sleepers_;
      idle = 0;
    }
  }
}

}  // namespace nixie::cpu
