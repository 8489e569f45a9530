// KernelCode: the source of a CUDA program, its launches, and its alternative algorithms. Needs no GPU.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nixie/backends/cuda/device/tensor_map.h"
#include "nixie/backends/cuda/generate/body.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// Partial results of a stage's reductions that one program leaves and another merges: a slot with accumulators for all
/// kept positions, `count` times, one part after the other.
struct Parts {
  int slot = 0;
  std::int64_t count = 0;
  bool of_channels = false;  ///< kept are the channels; else one value
  int stage = 0;             ///< of the kernel that merges
};

/// One launch of an entry point of the program; launches of a kernel run in order.
struct Launch {
  std::string entry;
  std::int64_t blocks = 0;
  int threads = 0;
  std::int64_t blocks_y = 1;
  std::int64_t shared_bytes = 0;  ///< dynamic shared memory
  bool meets = false;             ///< a cooperative launch: its blocks wait for each other
  std::vector<int> maps = {};     ///< indices of the tensor maps that it takes as arguments, before the pointers
};

/// One of several algorithms for a kernel. They differ in speed, and possibly in the order of sums.
struct Algorithm {
  std::string name;     ///< "256x128"
  double estimate = 0;  ///< estimated clocks of the busiest SM; 0: there is no estimate
};

struct KernelCode {
  std::string source;
  std::vector<Argument> arguments;
  std::vector<Launch> launches;            ///< none if there is nothing to compute
  std::int64_t scratch_bytes = 0;          ///< zero before the first run; programs that rely on this leave it zero
  std::vector<TensorMap> maps = {};        ///< for TMA
  std::vector<std::int32_t> table = {};    ///< constants in device memory: Argument::kTable
  std::string variant = {};                ///< template and tile, for traces
  std::string operation = {};              ///< in words, with its sizes; empty if there is only one algorithm
  std::vector<Algorithm> algorithms = {};  ///< sorted by estimated time
};

bool has_algorithm(const KernelCode& code, const std::string& name);

/// The tile of this name, or the first if the name is empty. Throws Fault::usage if there is none.
template <class Tile>
const Tile& tile_named(const std::vector<Tile>& tiles, const std::string& name) {
  for (const Tile& tile : tiles)
    if (name.empty() || tile.name() == name) return tile;
  fail(Fault::usage, "there is no tile ", name, " for this product or convolution");
}

/// The end of every generated program: an entry point that calls the template with Body.
/// `bounds`: launch bounds, threads per block and optionally blocks per SM.
std::string entry_point(const std::string& name, const std::string& bounds, const std::string& call);

/// `#define NAME value` for each pair.
std::string defines(const std::vector<std::pair<const char*, std::int64_t>>& values);

/// The products that ptx.cuh has in a program: of 64 rows by each of these numbers of columns, multiples of 8 up to 256
/// (integers beyond 32: of 16).
std::string products_of_columns(const std::vector<int>& columns);

}  // namespace nixie::cuda
