// Times alternative implementations of the same work, round-robin.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nixie/backends/cuda/device/handle.h"

namespace nixie::cuda {

/// The number of buffer sets, of `bytes` bytes each, to rotate through so that none is still in the L2 cache when it is
/// used again: 1 to 64.
std::size_t sets_beyond_l2(std::int64_t bytes, std::int64_t l2_bytes);

/// Candidates on a stream, each captured in a CUDA graph, so that the host's speed does not matter.
class CandidateTimer {
 public:
  explicit CandidateTimer(cudaStream_t stream);
  /// Adds a candidate of `launches` launches; `enqueue` puts one of them on the stream. Runs the first one before it
  /// captures all, because a first launch loads code, which is not allowed during capture.
  void add(std::size_t launches, const std::function<void(std::size_t launch)>& enqueue);
  /// The mean time of a candidate's launches. Runs them all and waits.
  double microseconds(std::size_t candidate);

 private:
  struct Runner {
    GraphExec graph;
    std::size_t launches;
  };
  cudaStream_t stream_;
  std::vector<Runner> runners_;
  Event start_, end_;
};

/// The times, and the fastest candidate; the first if none is faster by more than 2 %.
struct Fastest {
  std::vector<double> microseconds;
  std::size_t index = 0;
};
/// `time` returns the microseconds of a candidate. All are timed round-robin, several times; the median of each counts.
Fastest fastest_of(std::size_t candidates, const std::function<double(std::size_t)>& time);

}  // namespace nixie::cuda
