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
};

// Rates of the H200 were fitted to times of layers. Those of others have its share of what their datasheets promise:
// 0.63 of memory's bandwidth, 0.61 of 16-bit and 0.72 of f32 operations. Devices are charged as the first model of
// their architecture, so that an H100 runs what an H200 runs; NIXIE_CHIP names another.
const Model kModels[] = {
    {"A100",
     {.architecture = "sm_80",
      .sms = 108,
      .block_shared_bytes = 163 * kKibibyte,
      .l2_bytes = 40 * kMebibyte,
      .rates = {.bytes = 1.3e12, .mma = 190e12, .fma = 14e12}}},
    {"L40S",
     {.architecture = "sm_89",
      .sms = 142,
      .block_shared_bytes = 99 * kKibibyte,
      .l2_bytes = 96 * kMebibyte,
      .rates = {.bytes = 0.54e12, .mma = 220e12, .fma = 66e12}}},
    {"H200",
     {.architecture = "sm_90a",
      .sms = 132,
      .block_shared_bytes = 227 * kKibibyte,
      .l2_bytes = 50 * kMebibyte,
      .rates = {.bytes = 3.0e12, .mma = 600e12, .fma = 48e12}}},
    {"H100",
     {.architecture = "sm_90a",
      .sms = 132,
      .block_shared_bytes = 227 * kKibibyte,
      .l2_bytes = 50 * kMebibyte,
      .rates = {.bytes = 2.1e12, .mma = 600e12, .fma = 48e12}}},
    {"B200",
     {.architecture = "sm_100",
      .sms = 148,
      .block_shared_bytes = 227 * kKibibyte,
      .l2_bytes = 126 * kMebibyte,
      .rates = {.bytes = 5.0e12, .mma = 1370e12, .fma = 54e12}}},
};

}  // namespace

std::int64_t Chip::memory_bytes_per_clock() const { return static_cast<std::int64_t>(rates.bytes / kClock / sms); }

double Chip::seconds(const Work& work) const {
  return work.launches * kLaunch +
         std::max({work.bytes / rates.bytes, work.l2_bytes / (l2_bytes_per_clock * sms * kClock), work.mma / rates.mma,
                   work.fma / rates.fma, work.clocks / kClock});
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

Rates rates_of(const std::string& architecture) {
  const auto* found = std::ranges::find(kModels, architecture, [](const Model& m) { return m.chip.architecture; });
  return (found == std::end(kModels) ? found - 1 : found)->chip.rates;
}

std::string price_list() {
  std::string text = fmt::format("{:<6}{:<8}{:>4}{:>14}{:>10}{:>12}{:>12}\n", "chip", "", "SMs", "memory TB/s",
                                 "L2 TB/s", "mma TFLOP/s", "fma TFLOP/s");
  for (const auto& [name, chip] : kModels)
    text += fmt::format("{:<6}{:<8}{:>4}{:>14.2f}{:>10.1f}{:>12.0f}{:>12.1f}\n", name, chip.architecture, chip.sms,
                        chip.rates.bytes / 1e12, chip.l2_bytes_per_clock * chip.sms * Chip::kClock / 1e12,
                        chip.rates.mma / 1e12, chip.rates.fma / 1e12);
  return text +
         fmt::format("a launch takes {:.1f} us; SMs run at {:.1f} GHz\n", Chip::kLaunch * 1e6, Chip::kClock / 1e9);
}

Chip chip_to_choose_for(const Chip& device) {
  const std::string name = chosen_chip();
  if (name.empty()) return device;
  Chip chip = chip_named(name);
  check(!chip.has_wgmma() || device.has_wgmma(), "NIXIE_CHIP is ", name, ", whose kernels do not run on this ",
        device.architecture, " device");
  return chip;
}

}  // namespace nixie::cuda
