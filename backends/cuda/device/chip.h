// Chip: the properties of a GPU model by which kernels are chosen and generated.
#pragma once

#include <cstdint>
#include <string>

namespace nixie::cuda {

/// Measured rates per second: direct convolutions, the library's products, transforms of tiles.
struct Rates {
  double direct_flops = 0, blas_flops = 0, bytes = 0;
};

struct Chip {
  std::string architecture = {};  ///< NVRTC's name: "sm_80", "sm_90a"
  int sms = 0;
  std::int64_t block_shared_bytes = 0;  ///< most shared memory of a block
  std::int64_t l2_bytes = 0;
  int l2_bytes_per_clock = 50;           ///< L2 bandwidth of an SM
  Rates f16 = {800e12, 730e12, 3.6e12};  ///< of an H200

  double multiply_add_speed = 1;  ///< of kernels that multiply f32 unsplit, relative to an H200

  /// Hopper's wgmma and TMA, which the kernels named _sm90 need.
  bool has_wgmma() const { return architecture == "sm_90a"; }
};

/// The architecture of a compute capability.
std::string architecture_of(int major, int minor);

/// A chip by its architecture: sm_80 (A100), sm_89 (L40S), sm_90a (H100 SXM, H200) or sm_100 (B200). Throws
/// Fault::usage for others.
Chip chip_named(const std::string& architecture);

/// The chip to choose kernels for on a device: $NIXIE_CHIP if set, else the device itself. Throws
/// Fault::usage if the device lacks instructions that kernels for the named chip use.
Chip chip_to_choose_for(const Chip& device);

}  // namespace nixie::cuda
