// Watchdog: reports when a run makes no progress, and what each of its threads waits for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace nixie {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  /// Once nothing was marked for 10 times the median time between marks, and for `least` at least (before the first
  /// mark for four times that), `tell` gets a text
  /// of a line for the run and one for each thread, from a thread of the watchdog's own. Once for each such pause.
  /// What `tell` throws the next `mark` throws.
  explicit Watchdog(std::function<void(const std::string&)> tell, Clock::duration least = std::chrono::seconds(30));

  /// Sets the work of the run that the text names.
  void enter(const char* activity);
  /// A step, or a batch of an evaluation, is done.
  void mark();

 private:
  void watch(const std::stop_token& stop);
  Clock::duration limit() const;

  std::function<void(const std::string&)> tell_;
  Clock::duration least_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  const char* activity_ = "starts";
  Clock::time_point marked_ = Clock::now();
  bool is_told_ = false;
  std::vector<Clock::duration> last_;  // a ring of the times between marks
  std::size_t count_ = 0;
  std::exception_ptr failure_;  // of `tell`
  std::vector<std::jthread> thread_;
};

/// A line for each thread of this process: its name, whether it runs or sleeps, and in what of the kernel it waits.
std::string thread_text();

}  // namespace nixie
