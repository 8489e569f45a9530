// The chips that kernels are chosen for, by architecture.
#include "nixie/backends/cuda/device/chip.h"

#include <cstdlib>

#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kKibibyte = 1 << 10, kMebibyte = 1 << 20;

const Chip kChips[] = {
    {.architecture = "sm_80", .sms = 108, .block_shared_bytes = 163 * kKibibyte, .l2_bytes = 40 * kMebibyte},
    {.architecture = "sm_89", .sms = 142, .block_shared_bytes = 99 * kKibibyte, .l2_bytes = 96 * kMebibyte},
    {.architecture = "sm_90a", .sms = 132, .block_shared_bytes = 227 * kKibibyte, .l2_bytes = 50 * kMebibyte},
    {.architecture = "sm_100", .sms = 148, .block_shared_bytes = 227 * kKibibyte, .l2_bytes = 126 * kMebibyte},
};

}  // namespace

std::string architecture_of(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
}

Chip chip_named(const std::string& architecture) {
  std::string names;
  for (const Chip& chip : kChips) {
    if (chip.architecture == architecture) return chip;
    names += (names.empty() ? "" : ", ") + chip.architecture;
  }
  fail(Fault::usage, "chip ", architecture, " is unknown, expected one of ", names);
}

Chip chip_to_choose_for(const Chip& device) {
  const char* name = std::getenv("NIXIE_CHIP");
  if (!name || !*name) return device;
  Chip chip = chip_named(name);
  check(!chip.has_wgmma() || device.has_wgmma(), "NIXIE_CHIP is ", name, ", whose kernels do not run on this ",
        device.architecture, " device");
  return chip;
}

}  // namespace nixie::cuda
