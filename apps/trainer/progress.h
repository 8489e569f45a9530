// Progress: prints a run's progress: a progress line on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "nixie/apps/trainer/record/run_log.h"

namespace nixie {

/// The figures of a logging interval: means over its steps.
struct Interval {
  std::int64_t epoch = 0;  ///< from 0, of the last step
  std::int64_t step = 0;   ///< steps done
  double loss = 0, accuracy = 0, rate = 0;
  double loss_scale = 0;           ///< 0: not dynamic
  double noise_scale = 0;          ///< of gradients; 0: not asked for
  std::int64_t skipped_steps = 0;  ///< since the run began, for gradients that were not finite
};

class Progress {
 public:
  /// Prints to `out`; null: nothing.
  explicit Progress(std::FILE* out);

  /// Where all lines, and the figures of all logging intervals, go besides.
  RunLog& log() { return log_; }

  /// Begins the clock of a run that has done `step` of `total_steps`.
  void start(std::int64_t step, std::int64_t total_steps, std::int64_t steps_per_epoch, std::int64_t batch);
  /// After every step; `waited` is the time that it waited for its batch.
  void step(std::int64_t step, std::chrono::steady_clock::duration waited = {});
  /// True once a second on a terminal: it is time for `running`.
  bool wants_figures();
  /// Means over the steps of an interval that is not complete yet.
  void running(double loss, double accuracy, double rate);
  /// After every logging interval.
  void interval(const Interval& interval);
  /// A line of its own.
  void line(const std::string& text);

  /// Since start.
  double seconds() const;
  /// Since start, of training; what `pause` and `resume` enclose does not count.
  double images_per_second() const;
  void pause();
  void resume();
  /// Since start, for batches.
  double seconds_waited() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string text() const;
  void draw();
  double training_seconds() const;
  void clear();

  std::FILE* out_;
  bool is_terminal_;
  RunLog log_;
  bool is_drawn_ = false;  // an unfinished line is on the terminal
  Clock::time_point started_ = {}, drawn_ = {}, paused_ = {}, asked_ = {};
  Clock::duration pauses_ = {}, waits_ = {};
  std::int64_t first_step_ = 0, step_ = 0, total_ = 0, steps_per_epoch_ = 1, batch_ = 0;
  Interval shown_ = {};
};

/// `0:07`, `12:34`, `1:02:03`
std::string clock_text(double seconds);

}  // namespace nixie
