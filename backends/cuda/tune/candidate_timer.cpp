// Times candidates round-robin, because clocks drop under load.
#include "nixie/backends/cuda/tune/candidate_timer.h"

#include <algorithm>

namespace nixie::cuda {
namespace {

constexpr double kClearlyFaster = 0.98;
constexpr int kRounds = 5;
constexpr std::int64_t kMostSets = 64;

}  // namespace

std::size_t sets_beyond_l2(std::int64_t bytes, std::int64_t l2_bytes) {
  return static_cast<std::size_t>(std::min(1 + 2 * l2_bytes / std::max<std::int64_t>(bytes, 1), kMostSets));
}

CandidateTimer::CandidateTimer(cudaStream_t stream) : stream_(stream) {
  CUDA_CHECK(cudaEventCreate(start_.out()));
  CUDA_CHECK(cudaEventCreate(end_.out()));
}

void CandidateTimer::add(std::size_t launches, const std::function<void(std::size_t)>& enqueue) {
  enqueue(0);
  Graph graph;
  CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  try {
    for (std::size_t i = 0; i < launches; ++i) enqueue(i);
  } catch (...) {
    cudaStreamEndCapture(stream_, graph.out());
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream_, graph.out()));
  Runner& runner = runners_.emplace_back(Runner{.graph = {}, .launches = launches});
  CUDA_CHECK(cudaGraphInstantiate(runner.graph.out(), graph, 0));
}

double CandidateTimer::microseconds(std::size_t candidate) {
  CUDA_CHECK(cudaEventRecord(start_, stream_));
  CUDA_CHECK(cudaGraphLaunch(runners_[candidate].graph, stream_));
  CUDA_CHECK(cudaEventRecord(end_, stream_));
  CUDA_CHECK(cudaEventSynchronize(end_));
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_, end_));
  return 1e3 * static_cast<double>(milliseconds) / static_cast<double>(runners_[candidate].launches);
}

Fastest fastest_of(std::size_t candidates, const std::function<double(std::size_t)>& time) {
  std::vector<std::vector<double>> times(candidates);
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < candidates; ++i) times[i].push_back(time(i));
  Fastest fastest;
  for (std::vector<double>& of_one : times) {
    std::nth_element(of_one.begin(), of_one.begin() + kRounds / 2, of_one.end());
    fastest.microseconds.push_back(of_one[kRounds / 2]);
  }
  const auto least = std::ranges::min_element(fastest.microseconds);
  if (*least < kClearlyFaster * fastest.microseconds[0])
    fastest.index = static_cast<std::size_t>(least - fastest.microseconds.begin());
  return fastest;
}

}  // namespace nixie::cuda
