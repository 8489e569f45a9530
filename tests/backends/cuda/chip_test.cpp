// Chips by name, the chip that kernels are chosen for, and the list of families.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "nixie/backends/cuda/compile/embedded_files.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/tests/errors.h"

namespace nixie::cuda {
namespace {

TEST(CudaChip, IsKnownByItsArchitecture) {
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"}) {
    const Chip chip = chip_named(name);
    EXPECT_EQ(chip.architecture, name);
    EXPECT_GT(chip.sms, 0);
    EXPECT_GE(chip.block_shared_bytes, 99 << 10);
    EXPECT_EQ(chip.has_wgmma(), chip.architecture == "sm_90a");
  }
  EXPECT_EQ(error_of(Fault::usage, [] { chip_named("sm_70"); }),
            "chip sm_70 is unknown, expected one of A100 (sm_80), RTX3090 (sm_86), L40S (sm_89), RTX4090 (sm_89), H200 "
            "(sm_90a), H100 (sm_90a), Hopper (sm_90), B200 (sm_100), RTX5090 (sm_120)");
  EXPECT_EQ(architecture_of(8, 0), "sm_80");
  EXPECT_EQ(architecture_of(9, 0), "sm_90a");
  EXPECT_EQ(architecture_of(10, 0), "sm_100");
}

TEST(CudaChip, IsTheDeviceUnlessAnotherIsNamed) {
  const Chip hopper = chip_named("sm_90a"), ampere = chip_named("sm_80");
  unsetenv("NIXIE_CHIP");
  EXPECT_EQ(chip_to_choose_for(hopper).architecture, "sm_90a");
  setenv("NIXIE_CHIP", "A100", 1);
  EXPECT_EQ(chip_to_choose_for(hopper).sms, ampere.sms);
  setenv("NIXIE_CHIP", "sm_80", 1);  // an architecture is no model: the device without newer instructions
  const Chip as_ampere = chip_to_choose_for(hopper);
  EXPECT_EQ(as_ampere.architecture, "sm_80");
  EXPECT_EQ(as_ampere.sms, hopper.sms);
  EXPECT_EQ(as_ampere.block_shared_bytes, ampere.block_shared_bytes);
  EXPECT_EQ(as_ampere.rates.bytes, hopper.rates.bytes);
  EXPECT_DOUBLE_EQ(as_ampere.rates.mma, Chip::kSyncOfWgmma * hopper.rates.mma);
  setenv("NIXIE_CHIP", "sm_90a", 1);
  EXPECT_EQ(error_of([&] { chip_to_choose_for(ampere); }),
            "NIXIE_CHIP is sm_90a, whose kernels do not run on this sm_80 device");
  unsetenv("NIXIE_CHIP");
}

// Three products in tf32 take less time than one multiply-add where tensor cores have six times their rate and more.
TEST(CudaChip, SplitsF32WhereThatIsFaster) {
  for (const char* name : {"A100", "Hopper", "B200"}) EXPECT_TRUE(chip_named(name).splits_f32()) << name;
  for (const char* name : {"RTX3090", "L40S", "RTX4090", "RTX5090"})
    EXPECT_FALSE(chip_named(name).splits_f32()) << name;
  for (const char* name : {"H100", "H200"}) EXPECT_FALSE(chip_named(name).splits_f32()) << name;  // splits into halves
}

// The H200's prices: each kind of work by itself, what overlaps and what adds up.
TEST(CudaChip, PricesWork) {
  const Chip chip = chip_named("H200");
  const struct {
    Work work;
    double microseconds;
  } kCases[] = {
      {{}, 0},
      {{.launches = 4}, 10},
      {{.bytes = 3e9}, 1000},
      {{.mma = 6e11}, 1000},
      {{.fma = 48e9}, 1000},
      {{.clocks = 1.4e6}, 1000},
      {{.l2_bytes = 50 * 132 * 1.4e6}, 1000},
      {{.bytes = 3e9, .mma = 3e11, .launches = 2}, 1005},
      {{.bytes = 3e8, .mma = 3e11}, 500},
  };
  for (const auto& c : kCases) EXPECT_NEAR(1e6 * chip.seconds(c.work), c.microseconds, 1e-6);
}

// An H100 has less memory bandwidth than an H200, whose rates devices of their architecture have unless it is named.
// Smaller models of an architecture have a share of its rates.
TEST(CudaChip, OfADeviceHasTheRatesOfItsArchitecture) {
  EXPECT_LT(chip_named("H100").rates.bytes, chip_named("H200").rates.bytes);
  const struct {
    const char *architecture, *name;
    int sms;
  } kCases[] = {{"sm_80", "A100", 108},  {"sm_86", "RTX3090", 28},  {"sm_89", "L40S", 142},    {"sm_90a", "H200", 132},
                {"sm_100", "B200", 148}, {"sm_120", "RTX5090", 48}, {"sm_130", "RTX5090", 170}};
  for (const auto& c : kCases) {
    const Chip chip = device_chip(c.architecture, c.sms, 99 << 10, 32 << 20), model = chip_named(c.name);
    EXPECT_EQ(chip.architecture, c.architecture);
    EXPECT_EQ(chip.sms, c.sms);
    EXPECT_EQ(chip.block_shared_bytes, 99 << 10);
    EXPECT_EQ(chip.l2_bytes, 32 << 20);
    EXPECT_DOUBLE_EQ(chip.rates.bytes / chip.sms, model.rates.bytes / model.sms) << c.architecture;
    EXPECT_DOUBLE_EQ(chip.rates.mma / chip.sms, model.rates.mma / model.sms) << c.architecture;
    EXPECT_EQ(chip.clock, model.clock) << c.architecture;
  }
}

TEST(CudaChip, SaysWhatIsFast) {
  EXPECT_EQ(what_is_fast(chip_named("H200")), "sm_90a, 132 SMs: convolutions by wgmma in every precision but ieee");
  EXPECT_EQ(what_is_fast(chip_named("A100")), "sm_80, 108 SMs: convolutions by mma.sync in every precision but ieee");
  EXPECT_EQ(what_is_fast(device_chip("sm_86", 28, 99 << 10, 3 << 20)),
            "sm_86, 28 SMs: convolutions by mma.sync under fp16, bf16 and tf32, by multiply-adds under fp32 and ieee");
}

// One price list: no other file of the host side has a time or a rate per second.
TEST(CudaChip, AloneTurnsWorkIntoTime) {
  const std::filesystem::path root = std::filesystem::path(NIXIE_SOURCE_DIR) / "backends/cuda";
  const std::regex rate("[0-9]e(-[69]|9|1[0-9])");
  std::string found;
  for (const char* folder : {"generate", "families", "rewrite"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);)
        if (std::regex_search(line, rate)) found += entry.path().filename().string() + ": " + line + "\n";
    }
  EXPECT_EQ(found, "");
}

// But for the library's, a family is named as its file of device code.
TEST(CudaFamilies, AreNamedAsTheirDeviceCode) {
  std::set<std::string_view> names;
  for (const Family* family : families()) {
    EXPECT_TRUE(names.insert(family->name()).second) << family->name();
    if (family->name() == "cuBLASLt" || family->name() == "NCCL") continue;  // libraries
    const std::string file = std::string(family->name()) + ".cuh";
    const auto files = embedded_kernels();
    EXPECT_TRUE(std::ranges::any_of(files, [&](const EmbeddedFile& f) { return f.name == file; })) << file;
  }
  EXPECT_EQ(families().back()->name(), "map");  // takes what is left
}

// Without Hopper's instructions none of its families takes a kernel.
TEST(CudaFamilies, OfHopperRefuseOtherChips) {
  Plan plan;
  const Shape x{2, 64, 8, 8}, w{64, 64, 3, 3};
  for (const Shape& shape : {x, w, x})
    plan.slots.push_back({.dtype = Dtype::f16, .shape = shape, .strides = shape.channels_last(), .external = true});
  const Conv conv{.stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}};
  Kernel kernel{.label = "conv", .domain = x};
  kernel.head = Head{conv, {{0, 0, x, x.channels_last()}, {1, 0, w, w.channels_last()}}, Dtype::f16};
  kernel.stores = {{.slot = 2, .strides = x.channels_last()}};
  kernel.stages = {{.body = {{.primitive = Primitive::head}}, .stores = {{0, 0}}}};
  EXPECT_EQ(take(plan, kernel, chip_named("sm_90a"))->name(), "conv_fprop_sm90");
  for (const char* other : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}) {
    const auto by = take(plan, kernel, chip_named(other));
    EXPECT_EQ(by->name(), "gemm") << other;
    EXPECT_TRUE(std::ranges::count(by->refused, "conv_fprop_sm90: needs sm_90a")) << other;
  }
}

}  // namespace
}  // namespace nixie::cuda
#endif
