// Saver: runs writes in the background, one at a time and in order, and holds memory for the first.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace nixie {

class Saver {
 public:
  Saver() = default;
  /// Waits; an error that nobody asked for is lost.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Makes the thread, whose stack takes addresses, as `start` does, and holds so many bytes until `free_room`. Throws
  /// NoThread, Fault::memory.
  void reserve(std::int64_t bytes);
  void free_room() { room_.reset(); }
  bool has_thread() const { return !thread_.empty(); }
  /// Runs the work in a thread of its own, after waiting for the work before it. Throws what that threw.
  void start(std::function<void()> work);
  /// Throws what the last work threw, where it is done; waits for nothing.
  void check();
  /// Waits for the last work. Throws what it threw.
  void wait();

 private:
  void make_thread();
  void run(const std::stop_token& stop);
  void rethrow(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void()> work_;  // empty: there is none
  std::exception_ptr error_;
  std::unique_ptr<std::byte[]> room_;
  std::vector<std::jthread> thread_;  // made with the first work
};

}  // namespace nixie
