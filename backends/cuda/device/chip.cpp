// The chips that kernels are chosen for, by architecture or name, and what they charge for work.
#include "nixie/backends/cuda/device/chip.h"

#include <algorithm>
#include <iterator>

#include "nixie/backends/settings/environment.h"
#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

struct Model {
  const char* name;
  Chip chip;
  bool is_measured = false;
};

// Shared memory of a block in KiB, L2 in MiB; bytes of memory, 16-bit and f32 operations per second; the clock in Hz.
Model model(const char* name, const char* architecture, int sms, int shared, int l2, double bytes, double mma,
            double fma, double clock, bool is_measured = false) {
  return {name,
          {.architecture = architecture,
           .sms = sms,
           .block_shared_bytes = std::int64_t{shared} << 10,
           .l2_bytes = std::int64_t{l2} << 20,
           .rates = {.bytes = bytes, .mma = mma, .fma = fma},
           .clock = clock},
          is_measured};
}

// Rates of the H200 were fitted to times of layers. Those of others have its share of what their datasheets promise:
// 0.63 of memory's bandwidth, 0.61 of 16-bit operations with f32 sums and 0.72 of f32 operations; `measured` says
// which. Devices are charged as the first model of their architecture, so that an H100 runs what an H200 runs;
// NIXIE_CHIP names another. RTX4090 and L40S differ in memory. sm_90 is a Hopper that runs what other chips run, for
// tests of that.
const Model kModels[] = {
    // clang-format off
    model("A100",    "sm_80",  108, 163,  40,  1.3e12,   190e12,   14e12, 1.41e9),
    model("RTX3090", "sm_86",  82,  99,   6, 0.59e12,    43e12, 25.6e12,  1.7e9),
    model("L40S",    "sm_89",  142,  99,  96, 0.54e12,   220e12,   66e12, 2.52e9),
    model("RTX4090", "sm_89",  128,  99,  72, 0.63e12,   101e12,   59e12, 2.52e9),
    model("H200",    "sm_90a", 132, 227,  50,    3e12,   600e12,   48e12,  1.4e9, true),
    model("H100",    "sm_90a", 132, 227,  50,  2.1e12,   600e12,   48e12,  1.4e9),
    model("Hopper",  "sm_90",  132, 227,  50,    3e12,   370e12,   48e12,  1.4e9),
    model("B200",    "sm_100", 148, 227, 126,    5e12,  1370e12,   54e12, 1.85e9),
    model("RTX5090", "sm_120", 170,  99,  96, 1.13e12,   128e12,   75e12, 2.41e9),
    // clang-format on
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
