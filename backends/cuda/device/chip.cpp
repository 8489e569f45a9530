// The chips that kernels are chosen for, by architecture or name, and what they charge for work.
#include "nixie/backends/cuda/device/chip.h"

#include <algorithm>
#include <iterator>

#include "nixie/backends/settings/environment.h"
#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kKibibyte = 1 << 10, kMebibyte = 1 << 20;

struct Model {
  const char* name;
  Chip chip;
  bool is_measured = false;
};

// Rates of the H200 were fitted to times of layers. Those of others have its share of what their datasheets promise:
// 0.63 of memory's bandwidth, 0.61 of 16-bit operations with f32 sums and 0.72 of f32 operations; `measured` says
// which. Devices are charged as the first model of their architecture, so that an H100 runs what an H200 runs;
// NIXIE_CHIP names another. RTX4090 and L40S differ in memory. sm_90 is a Hopper that runs what other chips run, for
// tests of that.
const Model kModels[] = {
    {"A100",
     {.architecture = "sm_80",
      .sms = 108,
      .block_shared_bytes = 163 * kKibibyte,
      .l2_bytes = 40 * kMebibyte,
      .rates = {.bytes = 1.3e12, .mma = 190e12, .fma = 14e12},
      .clock = 1.41e9}},
    {"RTX3090",
     {.architecture = "sm_86",
      .sms = 82,
      .block_shared_bytes = 99 * kKibibyte,
      .l2_bytes = 6 * kMebibyte,
      .rates = {.bytes = 0.59e12, .mma = 43e12, .fma = 25.6e12},
      .clock = 1.7e9}},
    {"L40S",
     {.architecture = "sm_89",
      .sms = 142,
      .block_shared_bytes = 99 * kKibibyte,
      .l2_bytes = 96 * kMebibyte,
      .rates = {.bytes = 0.54e12, .mma = 220e12, .fma = 66e12},
      .clock = 2.52e9}},
    {"RTX4090",
     {.architecture = "sm_89",
      .sms = 128,
      .block_shared_bytes = 99 * kKibibyte,
      .l2_bytes = 72 * kMebibyte,
      .rates = {.bytes = 0.63e12, .mma = 101e12, .fma = 59e12},
      .clock = 2.52e9}},
    {"H200",
     {.architecture = "sm_90a",
      .sms = 132,
      .block_shared_bytes = 227 * kKibibyte,
      .l2_bytes = 50 * kMebibyte,
      .rates = {.bytes = 3.0e12, .mma = 600e12, .fma = 48e12}},
     true},
    {"H100",
     {.architecture = "sm_90a",
      .sms = 132,
      .block_shared_bytes = 227 * kKibibyte,
      .l2_bytes = 50 * kMebibyte,
      .rates = {.bytes = 2.1e12, .mma = 600e12, .fma = 48e12}}},
    {"Hopper",
     {.architecture = "sm_90",
      .sms = 132,
      .block_shared_bytes = 227 * kKibibyte,
      .l2_bytes = 50 * kMebibyte,
      .rates = {.bytes = 3.0e12, .mma = 370e12, .fma = 48e12}}},
    {"B200",
     {.architecture = "sm_100",
      .sms = 148,
      .block_shared_bytes = 227 * kKibibyte,
      .l2_bytes = 126 * kMebibyte,
      .rates = {.bytes = 5.0e12, .mma = 1370e12, .fma = 54e12},
      .clock = 1.85e9}},
    {"RTX5090",
     {.architecture = "sm_120",
      .sms = 170,
      .block_shared_bytes = 99 * kKibibyte,
      .l2_bytes = 96 * kMebibyte,
      .rates = {.bytes = 1.13e12, .mma = 128e12, .fma = 75e12},
      .clock = 2.41e9}},
};

}  // namespace

std::int64_t Chip::memory_bytes_per_clock() const { return static_cast<std::int64_t>(rates.bytes / clock / sms); }

double Chip::seconds(const Work& work) const {
  return work.launches * kLaunch +
         std::max({work.bytes / rates.bytes, work.l2_bytes / (l2_bytes_per_clock * sms * clock), work.mma / rates.mma,
                   work.fma / rates.fma, work.clocks / clock});
}

std::string architecture_of(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
}

Chip chip_named(const std::string& name) {
  std::string names;
  for (const Model& model : kModels) {
    if (model.chip.architecture == name || model.name == name) return model.chip;
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", model.name, model.chip.architecture);
  }
  fail(Fault::usage, "chip ", name, " is unknown, expected one of ", names);
}

Chip device_chip(const std::string& architecture, int sms, std::int64_t block_shared_bytes, std::int64_t l2_bytes) {
  const auto* found = std::ranges::find(kModels, architecture, [](const Model& m) { return m.chip.architecture; });
  Chip chip = (found == std::end(kModels) ? found - 1 : found)->chip;
  const double share = static_cast<double>(sms) / chip.sms;
  chip.rates = {chip.rates.bytes * share, chip.rates.mma * share, chip.rates.fma * share};
  chip.architecture = architecture, chip.sms = sms;
  chip.block_shared_bytes = block_shared_bytes, chip.l2_bytes = l2_bytes;
  return chip;
}

std::string what_is_fast(const Chip& chip) {
  return fmt::format("{}, {} SMs: convolutions by {}", chip.architecture, chip.sms,
                     chip.has_wgmma()    ? "wgmma in every precision but ieee"
                     : chip.splits_f32() ? "mma.sync in every precision but ieee"
                                         : "mma.sync under fp16, bf16 and tf32, by multiply-adds under fp32 and ieee");
}

std::string price_list() {
  std::string text = fmt::format("{:<8}{:<8}{:>4}{:>14}{:>10}{:>12}{:>12}{:>7}  {}\n", "chip", "", "SMs", "memory TB/s",
                                 "L2 TB/s", "mma TFLOP/s", "fma TFLOP/s", "GHz", "rates");
  for (const auto& [name, chip, is_measured] : kModels)
    text += fmt::format("{:<8}{:<8}{:>4}{:>14.2f}{:>10.1f}{:>12.0f}{:>12.1f}{:>7.2f}  {}\n", name, chip.architecture,
                        chip.sms, chip.rates.bytes / 1e12, chip.l2_bytes_per_clock * chip.sms * chip.clock / 1e12,
                        chip.rates.mma / 1e12, chip.rates.fma / 1e12, chip.clock / 1e9,
                        is_measured ? "measured" : "by its datasheet");
  return text + fmt::format("a launch takes {:.1f} us\n", Chip::kLaunch * 1e6);
}

Chip chip_to_choose_for(const Chip& device) {
  const std::string name = chosen_chip();
  if (name.empty()) return device;
  const Chip chip = chip_named(name);
  check(!chip.has_wgmma() || device.has_wgmma(), "NIXIE_CHIP is ", name, ", whose kernels do not run on this ",
        device.architecture, " device");
  if (chip.architecture != name) return chip;
  Chip as = device;
  as.architecture = name;
  as.block_shared_bytes = std::min(device.block_shared_bytes, chip.block_shared_bytes);
  if (device.has_wgmma() && !chip.has_wgmma()) as.rates.mma *= Chip::kSyncOfWgmma;
  return as;
}

}  // namespace nixie::cuda
