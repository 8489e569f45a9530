// Geometry: chosen by the sizes of kept and reduced axes, never by the device.
#include "nixie/backends/cuda/generate/reduce_geometry.h"

#include <algorithm>
#include <bit>

namespace nixie::cuda {
namespace {

// Results must not depend on the device, so neither may the
// shape of the work: two blocks on each of 128 multiprocessors.
constexpr std::int64_t kEnoughBlocks = 256;
constexpr int kSharedBytes = 24 * 1024;  // half of what a block has: parts of other blocks meet in the rest
// Neighbouring kept positions that a block takes: 128 bytes of halves. With more of them more blocks share each, and
// merging what they leave takes one block longer than small images take to read.
constexpr int kMostColumns = 64;
constexpr int kFewSteps = 8;
constexpr std::int64_t kManyThreads = 128 * 1024;  // a thousand on each of 128 multiprocessors

int power_of_two_at_least(std::int64_t n, int most) {
  return n >= most ? most : static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

// Parts that share one kept position's work: enough to fill the device, few to merge, each with several steps to do.
int splits_for(std::int64_t tiles, std::int64_t steps) {
  const std::int64_t wanted = std::min(kEnoughBlocks / std::max<std::int64_t>(tiles, 1), steps / 4);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, kEnoughBlocks));
}

}  // namespace

Geometry geometry(std::int64_t kept, std::int64_t reduced, bool kept_first, int lanes, int bytes, int threads) {
  Geometry g;
  g.kept_first = kept_first;
  if (kept_first) {
    g.kept_threads = power_of_two_at_least(kept, std::min(32, kMostColumns / lanes));
    g.reduced_threads = std::min(threads / g.kept_threads, power_of_two_at_least(reduced, threads));
    // A thread has several steps where kept positions alone fill the device: merging takes longer than a step.
    while (g.reduced_threads > 1 && reduced < std::int64_t{kFewSteps} * g.reduced_threads &&
           kept * g.reduced_threads / 2 >= kManyThreads)
      g.reduced_threads /= 2;
    while (g.threads() < 128 && 2 * g.kept_threads <= kept) g.kept_threads *= 2;
    // The sums of a block's warps meet in shared memory.
    while (g.reduced_threads > 1 && std::max(1, g.threads() / 32) * g.kept_threads * bytes > kSharedBytes)
      g.reduced_threads /= 2;
  } else {
    // A thread has about four steps; more threads where rows are few.
    const std::int64_t per_thread = kept >= 4096 ? 4 : 1;
    g.reduced_threads = power_of_two_at_least((reduced + per_thread - 1) / per_thread, 256);
    g.kept_threads = std::max(1, 128 / g.reduced_threads);
    g.kept_threads = std::min(g.kept_threads, power_of_two_at_least(kept, 128));
  }
  while (g.threads() < 32) g.kept_threads *= 2;
  g.tiles = (kept + g.kept_threads - 1) / g.kept_threads;
  g.splits = splits_for(g.tiles, (reduced + g.reduced_threads - 1) / g.reduced_threads);
  return g;
}

Geometry to_one_value(std::int64_t reduced) {
  Geometry g;
  const std::int64_t steps = (reduced + g.reduced_threads - 1) / g.reduced_threads;
  g.splits = steps <= 16 ? 1 : steps <= 256 ? 16 : 64;
  return g;
}

}  // namespace nixie::cuda
