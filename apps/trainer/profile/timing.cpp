// Marks before and after every run, read together at the end.
#include "nixie/apps/trainer/profile/timing.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace nixie {

Timing summarize(const std::vector<double>& milliseconds) {
  check(!milliseconds.empty(), "a timing of no runs");
  std::vector<double> sorted = milliseconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return {.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size()),
          .median = sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2,
          .min = sorted.front(),
          .max = sorted.back(),
          .runs = static_cast<int>(sorted.size())};
}

void warm_up(Backend& backend, const std::function<void()>& work, double least_seconds) {
  constexpr int kLeast = 3;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  for (int i = 0; i < kLeast || seconds() < least_seconds; ++i) {
    work();
    backend.synchronize();
  }
}

std::vector<std::vector<double>> time_in_turn(Backend& backend, const std::vector<std::function<void()>>& work,
                                              int rounds) {
  const auto stopwatch = backend.stopwatch();
  stopwatch->mark();
  for (int round = 0; round < rounds; ++round)
    for (const auto& piece : work) {
      piece();
      stopwatch->mark();
    }
  const std::vector<double> intervals = stopwatch->intervals_ms();
  std::vector<std::vector<double>> times(work.size());
  for (std::size_t i = 0; i < intervals.size(); ++i) times[i % work.size()].push_back(intervals[i]);
  return times;
}

Timing time_work(Backend& backend, const std::function<void()>& work, int runs) {
  warm_up(backend, work);
  return summarize(time_in_turn(backend, {work}, runs)[0]);
}

Timing time_for(Backend& backend, const std::function<void()>& work, int runs, const Filling& filling) {
  warm_up(backend, work, filling.warm_seconds);
  const double once = std::max(time_in_turn(backend, {work}, 1)[0][0], 1e-6);
  const int inner = static_cast<int>(std::clamp(filling.least_ms / once, 1.0, static_cast<double>(filling.most)));
  const auto piece = [&] {
    for (int i = 0; i < inner; ++i) work();
  };
  std::vector<double> times = time_in_turn(backend, {piece}, runs)[0];
  for (double& time : times) time /= inner;
  return summarize(times);
}

}  // namespace nixie
