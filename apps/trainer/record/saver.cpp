// A thread that sleeps between two pieces of work.
#include "nixie/apps/trainer/record/saver.h"

#include <new>
#include <utility>

#include "nixie/core/base/error.h"
#include "nixie/core/base/threads.h"

namespace nixie {

Saver::~Saver() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !work_; });
  }
  for (std::jthread& thread : thread_) thread.request_stop();
}

void Saver::rethrow(std::unique_lock<std::mutex>&) {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Saver::make_thread() {
  if (thread_.empty()) start_threads(thread_, "saver", 1, [this](const std::stop_token& stop) { run(stop); });
}

void Saver::reserve(std::int64_t bytes) {
  make_thread();
  room_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  if (!room_)
    fail(Fault::memory, "no ", bytes >> 20, " MiB of memory for a checkpoint in the making; use a larger machine or a ",
         "smaller model");
}

void Saver::start(std::function<void()> work) {
  make_thread();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
  rethrow(lock);
  work_ = std::move(work);
  changed_.notify_all();
}

void Saver::check() {
  std::unique_lock lock(mutex_);
  rethrow(lock);
}

void Saver::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
  rethrow(lock);
}

void Saver::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return static_cast<bool>(work_); })) {
    const std::function<void()> work = work_;  // it stays until it is done: that is what others wait for
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace nixie
