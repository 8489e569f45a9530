// One thread of each rank, so that a rank that is stopped, or whose machine is gone, falls silent.
#include "nixie/backends/mpi/heartbeat.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "nixie/core/base/threads.h"

namespace nixie {
namespace {

constexpr std::int64_t kFirstPauses = 3;  // tell how long a step takes; before them a rank may compile

double seconds(Heartbeat::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Heartbeat::Heartbeat(const Communicator& ranks, Signs& signs, std::function<void(const std::string&)> end,
                     const Limits& limits)
    : ranks_(ranks), signs_(signs), end_(std::move(end)), limits_(limits) {
  start_threads(thread_, "heartbeat", 1, [this](const std::stop_token& stop) { beat(stop); });
}

void Heartbeat::beat(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  Clock::time_point last = Clock::now();
  while (!stop.stop_requested()) {
    signs_.send_sign((ranks_.rank() + ranks_.size() - 1) % ranks_.size());
    const Clock::time_point now = Clock::now();
    // A job that was stopped as a whole, and goes on, heard nothing meanwhile.
    if (now - last > limits_.silence / 2) heard_ = exchanged_ = now;
    last = now;
    auto fault = lost_neighbour(now);
    if (!fault) fault = own_hang(now);
    if (fault) return end_(*fault + "; the job ends, and --resume goes on from its last checkpoint");
    never.wait_for(lock, stop, limits_.interval, [] { return false; });
  }
}

std::optional<std::string> Heartbeat::lost_neighbour(Clock::time_point now) {
  const int next = (ranks_.rank() + 1) % ranks_.size();
  if (signs_.take_sign(next)) heard_ = now;
  if (now - heard_ < limits_.silence) return {};
  return fmt::format(
      "rank {} of {} on {} gave no sign of life for {:.0f} s: its process is stopped, or its machine or network is "
      "down",
      next, ranks_.size(), ranks_.hosts()[static_cast<std::size_t>(next)], seconds(now - heard_));
}

std::optional<std::string> Heartbeat::own_hang(Clock::time_point now) {
  const std::int64_t done = signs_.exchanges();
  const bool waits_for_others = done % 2 != 0, goes_on = done != exchanges_;
  if (!expects_ || waits_for_others || goes_on) {
    if (expects_ && goes_on) longest_ = std::max(longest_, now - exchanged_), ++pauses_;
    exchanged_ = now;
    exchanges_ = done;
    return {};
  }
  if (pauses_ < kFirstPauses || now - exchanged_ < std::max(limits_.silence, 10 * longest_)) return {};
  return fmt::format("rank {} of {} on {} hangs: its training step has exchanged nothing for {:.0f} s", ranks_.rank(),
                     ranks_.size(), ranks_.hosts()[static_cast<std::size_t>(ranks_.rank())], seconds(now - exchanged_));
}

}  // namespace nixie
