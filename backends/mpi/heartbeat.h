// Heartbeat: each rank sends signs of life to the rank before it, and ends the job where those of the next one cease.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "nixie/core/graph/world.h"

namespace nixie {

/// What a heartbeat needs of a communicator; called beside the exchanges, from another thread.
class Signs {
 public:
  virtual ~Signs() = default;
  /// Sends a sign of life to a rank, without waiting.
  virtual void send_sign(int rank) = 0;
  /// Whether a rank has sent one since the last call.
  virtual bool take_sign(int rank) = 0;
  /// The exchanges with other ranks that have begun, and those that have ended: an odd number inside of one.
  virtual std::int64_t exchanges() const = 0;
};

class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    Clock::duration interval = std::chrono::milliseconds(500);  ///< between two signs
    Clock::duration silence = std::chrono::seconds(7);          ///< without a sign, a rank is lost
  };

  /// Begins. `end` is called once, from a thread of the heartbeat's, with a line about the rank for which the job has
  /// to end.
  Heartbeat(const Communicator& ranks, Signs& signs, std::function<void(const std::string&)> end, const Limits& limits);

  /// Whether this rank is expected to exchange something again within `silence`, or within ten times the longest of its
  /// pauses so far: true inside a training step, false where it compiles, reads, evaluates or saves.
  void expect_exchanges(bool expected) { expects_ = expected; }

 private:
  void beat(const std::stop_token& stop);
  std::optional<std::string> lost_neighbour(Clock::time_point now);
  std::optional<std::string> own_hang(Clock::time_point now);

  const Communicator& ranks_;
  Signs& signs_;
  std::function<void(const std::string&)> end_;
  Limits limits_;
  std::atomic<bool> expects_{false};
  Clock::time_point heard_ = Clock::now();      // the neighbour's last sign
  Clock::time_point exchanged_ = Clock::now();  // the last time at which this rank was not expected to go on, or did
  Clock::duration longest_{};                   // pause between two exchanges that were expected
  std::int64_t exchanges_ = 0, pauses_ = 0;
  std::vector<std::jthread> thread_;  // last: it uses the members above
};

}  // namespace nixie
