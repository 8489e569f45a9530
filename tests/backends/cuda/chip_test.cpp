// Chips by name, the chip that kernels are chosen for, and the list of families.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "nixie/backends/cuda/compile/embedded_files.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/tests/errors.h"

namespace nixie::cuda {
namespace {

TEST(CudaChip, IsKnownByItsArchitecture) {
  for (const char* name : {"sm_80", "sm_89", "sm_90a", "sm_100"}) {
    const Chip chip = chip_named(name);
    EXPECT_EQ(chip.architecture, name);
    EXPECT_GT(chip.sms, 0);
    EXPECT_GE(chip.block_shared_bytes, 99 << 10);
    EXPECT_EQ(chip.has_wgmma(), chip.architecture == "sm_90a");
  }
  EXPECT_EQ(error_of(Fault::usage, [] { chip_named("sm_70"); }),
            "chip sm_70 is unknown, expected one of sm_80, sm_89, sm_90a, sm_100");
  EXPECT_EQ(architecture_of(8, 0), "sm_80");
  EXPECT_EQ(architecture_of(9, 0), "sm_90a");
  EXPECT_EQ(architecture_of(10, 0), "sm_100");
}

TEST(CudaChip, IsTheDeviceUnlessAnotherIsNamed) {
  const Chip hopper = chip_named("sm_90a"), ampere = chip_named("sm_80");
  unsetenv("NIXIE_CHIP");
  EXPECT_EQ(chip_to_choose_for(hopper).architecture, "sm_90a");
  setenv("NIXIE_CHIP", "sm_80", 1);
  EXPECT_EQ(chip_to_choose_for(hopper).sms, ampere.sms);
  setenv("NIXIE_CHIP", "sm_90a", 1);
  EXPECT_EQ(error_of([&] { chip_to_choose_for(ampere); }),
            "NIXIE_CHIP is sm_90a, whose kernels do not run on this sm_80 device");
  unsetenv("NIXIE_CHIP");
}

// But for the library's, a family is named as its file of device code.
TEST(CudaFamilies, AreNamedAsTheirDeviceCode) {
  std::set<std::string_view> names;
  for (const Family* family : families()) {
    EXPECT_TRUE(names.insert(family->name()).second) << family->name();
    if (family->name() == "cuBLASLt") continue;
    const std::string file = std::string(family->name()) + ".cuh";
    const auto files = embedded_kernels();
    EXPECT_TRUE(std::any_of(files.begin(), files.end(), [&](const EmbeddedFile& f) { return f.name == file; })) << file;
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
  for (const char* other : {"sm_80", "sm_89", "sm_100"}) {
    const auto by = take(plan, kernel, chip_named(other));
    EXPECT_EQ(by->name(), "gemm") << other;
    EXPECT_TRUE(std::count(by->refused.begin(), by->refused.end(), "conv_fprop_sm90: needs sm_90a")) << other;
  }
}

}  // namespace
}  // namespace nixie::cuda
#endif
