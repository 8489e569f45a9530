// Codegen: a Plan kernel becomes the text of a CUDA program and the way to launch it. Needs no GPU.
#pragma once

#include <string>
#include <vector>

#include "nixie/backends/cuda/device/tensor_map.h"
#include "nixie/backends/cuda/generate/body.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// One launch of an entry point of the program; launches of a kernel run in order.
struct Launch {
  std::string entry;
  std::int64_t blocks = 0;
  int threads = 0;
  std::int64_t blocks_y = 1;
  std::int64_t shared_bytes = 0;  ///< dynamic
  std::vector<int> maps = {};     ///< which of the code's tensor maps it takes, before the pointers
};

/// One of several ways to compute a kernel that differ in speed, and perhaps in the order of sums.
struct Way {
  std::string name;     ///< "256x128"
  double estimate = 0;  ///< of its time, in a unit that the ways of a kernel share
};

struct KernelCode {
  std::string source;
  std::vector<Argument> arguments;
  std::vector<Launch> launches;          ///< none when there is nothing to compute
  std::int64_t scratch_bytes = 0;        ///< zero before the first run, left zero where that matters
  std::vector<TensorMap> maps = {};      ///< for the copy engine
  std::vector<std::int32_t> table = {};  ///< constants in device memory: Argument::kTable
  std::string variant = {};              ///< which template with which tile, for traces
  std::string operation = {};            ///< in words, with its sizes; empty where there is one way only
  std::vector<Way> ways = {};            ///< the one taken where none is named first
};

/// The code of a kernel, its head included; on Hopper chips (sm_90a) with their own kernels where they fit.
/// The text does not depend on where slots lie, so equal kernels compile once. `way`: one of the code's by name; the
/// first where it is empty. Throws Fault::usage where the kernel has no such way.
KernelCode generate(const Plan& plan, const Kernel& kernel, bool hopper = false, const std::string& way = {});

bool has_way(const KernelCode& code, const std::string& name);

/// The tile of this name, the first where it is empty. Throws Fault::usage where there is none.
template <class Tile>
const Tile& tile_named(const std::vector<Tile>& tiles, const std::string& name) {
  for (const Tile& tile : tiles)
    if (name.empty() || tile.name() == name) return tile;
  fail(Fault::usage, "there is no tile ", name, " for this product or convolution");
}

/// What every generated program ends with: an entry point that passes Body on.
/// `bounds`: of the launch: the threads of a block, perhaps the blocks that must fit a multiprocessor.
std::string entry_point(const std::string& name, const std::string& bounds, const std::string& call);

// One per template in kernels/; generate() picks.
KernelCode generate_map(const Plan& plan, const Kernel& kernel);
KernelCode generate_reduce(const Plan& plan, const Kernel& kernel);
/// Heads Matmul and Conv; `way`: a tile, "128x64", as in generate.
KernelCode generate_product(const Plan& plan, const Kernel& kernel, const std::string& way = {});

/// A head that is looked up position by position: members of Body, and the call that gives its value.
struct HeadCode {
  std::string members{}, call{};
  bool wide = false;
};
HeadCode lookup_head(const Plan& plan, const Kernel& kernel, BodyWriter& body, const Frame& frame);

}  // namespace nixie::cuda
