// The tiles in which portable products are computed, and what they cost.
#pragma once

#include <string>
#include <vector>

#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/cuda/generate/products/product.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// A tile of m x n results, whose sums a block computes in steps of k terms, alone or with others (`splits`).
struct Tiling {
  int m = 0, n = 0, k = 0, threads = 0;
  int thread_m = 4, thread_n = 4;  ///< of gemm.cuh
  int warps_n = 1, stages = 3;     ///< of gemm_sm80.cuh
  int blocks = 1;                  ///< that registers must leave room for on an SM
  int splits = 1;
  std::int64_t tiles = 1;
  double clocks = 1;    ///< on tensor cores: of the busiest SM
  double measured = 1;  ///< of multiply-adds: time over the estimate, of 355 layers on an H200
  std::string name() const { return fmt::format("{}x{}", m, n); }
};

constexpr int kSplitGroup = 16;  ///< parts that one block adds, before one adds their sums

/// The tiles of a product by multiply-adds, the best first: of f32 convolutions the one that an H200 should compute in
/// the least time, of others the largest that gives a device enough blocks, parts of the sum counted. Neither depends
/// on the device, so results are the same on every chip.
std::vector<Tiling> multiply_add_tilings(const Product& product, Dtype compute);
struct TileWork {
  Work work = {};
  double share = 0;  ///< of a chip that it fills
};
TileWork work_of(const Product& product, const Tiling& tiling, int sms);

/// What tensor cores multiply: elements of a size, which operands become on their way to shared memory (`converts`), or
/// f32 in two parts.
struct Elements {
  std::int64_t bytes = 2;
  bool converts = false, in_parts = false;
};
/// Those of a product on tensor cores, the one of least estimated time on the chip first.
std::vector<Tiling> tensor_tilings(const Product& product, const Elements& elements, const Chip& chip);
/// Shared memory of a block.
std::int64_t shared_bytes_of(const Tiling& tiling, std::int64_t element_bytes);

}  // namespace nixie::cuda
