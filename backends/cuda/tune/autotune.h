// Times several ways of doing one thing against each other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nixie/backends/cuda/device/handle.h"

namespace nixie::cuda {

/// How many sets of memory of so many bytes should take turns, so that none is still in the current device's L2 cache
/// when its turn comes: 1 to 64.
std::size_t sets_beyond_l2(std::int64_t bytes);

/// Ways on a stream, each captured in a CUDA graph, so that the pace of the host does not count.
class Race {
 public:
  explicit Race(cudaStream_t stream);
  /// A way of `launches` launches; `enqueue` puts one of them on the stream. Runs the first once before it captures
  /// all, for a first launch loads code, which no capture allows.
  void add(std::size_t launches, const std::function<void(std::size_t launch)>& enqueue);
  /// Of a launch, over all of a way's launches; waits for them.
  double microseconds(std::size_t way);

 private:
  struct Runner {
    GraphExec graph;
    std::size_t launches;
  };
  cudaStream_t stream_;
  std::vector<Runner> runners_;
  Event start_, end_;
};

/// Times by way, and which is the fastest; the first where none is faster by more than 2 %.
struct Fastest {
  std::vector<double> microseconds;
  std::size_t index = 0;
};
/// `time` gives microseconds of a way. Every way is timed in turn, several times over; its median counts.
Fastest fastest_of(std::size_t ways, const std::function<double(std::size_t)>& time);

}  // namespace nixie::cuda
