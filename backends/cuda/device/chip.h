// Chip: the properties of a GPU model by which kernels are chosen and generated, and its prices.
#pragma once

#include <cstdint>
#include <string>

namespace nixie::cuda {

/// The work that a kernel, or several, ask of a chip. Chip::seconds
/// prices it; nothing else in this backend turns work into time.
struct Work {
  double bytes = 0;     ///< to and from memory
  double l2_bytes = 0;  ///< from L2 to SMs
  double mma = 0;       ///< 16-bit operations of tensor cores, two for a multiply-add
  double fma = 0;       ///< f32 operations without tensor cores, likewise
  double clocks = 0;    ///< of the busiest SM, from a family that schedules its own tiles
  double launches = 0;
};

/// Bytes of memory and operations per second that kernels reach, not what datasheets promise.
struct Rates {
  double bytes = 0, mma = 0, fma = 0;
};

struct Chip {
  static constexpr double kLaunch = 2.5e-6;     ///< seconds of an empty kernel in a graph
  static constexpr double kSyncOfWgmma = 0.62;  ///< of wgmma's rate, what mma.sync reaches on the same chip

  std::string architecture = {};  ///< NVRTC's name: "sm_80", "sm_90a"
  int sms = 0;
  std::int64_t block_shared_bytes = 0;  ///< most shared memory of a block
  std::int64_t l2_bytes = 0;
  int l2_bytes_per_clock = 50;  ///< L2 bandwidth of an SM
  Rates rates = {};
  double clock = 1.4e9;  ///< of an SM at work, in Hz: measured on Hopper, of others what the maker promises

  double multiply_add_speed = 1;  ///< of kernels that multiply f32 unsplit, relative to an H200

  /// Hopper's wgmma and TMA, which the kernels named _sm90 need.
  bool has_wgmma() const { return architecture == "sm_90a"; }

  /// Whether tensor cores compute f32 products under `fp32` (each three products in tf32, which run at half the rate of
  /// 16 bits) in less time than multiply-adds. On GeForce they do not.
  bool splits_f32() const { return !has_wgmma() && rates.mma / 6 > rates.fma; }

  /// An SM's share of memory bandwidth.
  std::int64_t memory_bytes_per_clock() const;
  /// The estimated time of work: its launches, and the slowest of the rest, which overlap.
  double seconds(const Work& work) const;
};

/// The architecture of a compute capability.
std::string architecture_of(int major, int minor);

/// A chip by its architecture or its name: sm_80 (A100), sm_86 (RTX3090), sm_89 (L40S, or RTX4090 by name), sm_90 (a
/// Hopper without wgmma), sm_90a (H200, or H100 by name), sm_100 (B200) or sm_120 (RTX5090). Throws Fault::usage for
/// others.
Chip chip_named(const std::string& name);

/// A device's chip: what it says of itself, and the rates of the first known model of its architecture, or of the
/// newest known chip, by its share of that model's SMs.
Chip device_chip(const std::string& architecture, int sms, std::int64_t block_shared_bytes, std::int64_t l2_bytes);

/// "sm_86, 28 SMs: convolutions by mma.sync ...": what a chip's owner should know about precisions.
std::string what_is_fast(const Chip& chip);

/// The prices of all known chips as a table.
std::string price_list();

/// The chip to choose kernels for on a device: the device itself, or $NIXIE_CHIP: the model of that name, or for the
/// name of an architecture the device with the instructions and the shared memory of that one. Throws Fault::usage if
/// the device lacks instructions that kernels for the named chip use.
Chip chip_to_choose_for(const Chip& device);

}  // namespace nixie::cuda
