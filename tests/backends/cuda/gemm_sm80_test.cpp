// Products and convolutions by mma.sync (gemm_sm80.cuh): tiles fit every chip, programs compile for each without
// spills; with a device, results of every tile against doubles.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/products/product.h"
#include "nixie/tests/backends/cuda/compiled_by.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/compiler_log.h"

namespace nixie {
namespace {

using cuda_plans::Draft;
using hopper_plans::Forward;
using hopper_plans::Gradient;
using hopper_plans::Layer;

// A Hopper without wgmma is among them.
constexpr const char* kChips[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"};

struct Case {
  std::string name;
  Layer layer;
  double (*values)(Dtype, std::mt19937&) = cuda_plans::eighths;
};

// Two parts of f32 hold values that do not fit one.
Layer in_parts(Layer layer) {
  layer.dtype = Dtype::f32, layer.math = Math::fp32;
  return layer;
}

std::vector<Case> cases() {
  return {
      {"window", "2x40x9x7 by 72x3x3 pad 1"},
      {"one_tap", "3x64x7x7 by 136x1x1"},
      {"strided", "2x32x11x9 by 64x3x3 stride 2 pad 1"},
      {"dilated", "2x24x13x9 by 40x3x2 pad 3x1 dilation 3x2"},
      {"whole_steps", "2x64x6x9 by 128x3x3 pad 1"},
      {"groups", "2x32x6x9 by 48x3x3 pad 1 groups 2"},
      {"pairs", "2x10x8x9 by 26x3x3 pad 1"},
      {"row_major", "2x24x7x8 by 40x3x3 pad 1 row_major"},
      {"bf16", "2x64x7x8 by 64x3x3 pad 1 bf16"},
      {"tf32", "2x24x7x8 by 40x3x3 pad 1 f32 tf32"},
      {"parts", in_parts("2x40x9x7 by 72x3x3 pad 1"), cuda_plans::any_number},
      {"odd_parts", in_parts("2x7x9x8 by 9x3x3 stride 2 pad 1"), cuda_plans::any_number},
      {"row_major_parts", in_parts("2x24x7x8 by 40x3x3 pad 1 row_major"), cuda_plans::any_number},
      {"shared_sums", "12x64x28x28 by 64x1x1"},
  };
}

std::vector<Draft> drafts(const Case& of) {
  return {hopper_plans::forward(of.name + "_forward", of.layer, Forward::residual),
          hopper_plans::input_grad(of.name + "_input_grad", of.layer, true),
          hopper_plans::filter_grad(of.name + "_filter_grad", of.layer, Gradient::updated)};
}

void expect_compile(const std::vector<std::string>& sources, const std::string& chip) {
  for (const cuda::Cubin& cubin : cuda::compile_sources(sources, chip))
    EXPECT_EQ(cuda::complaints(cubin.log, 0), "") << chip;
}

class CudaGemmSm80 : public testing::TestWithParam<Case> {};

TEST_P(CudaGemmSm80, TilesFitEveryChip) {
  for (const char* name : kChips) {
    const cuda::Chip chip = cuda::chip_named(name);
    for (const Draft& draft : drafts(GetParam())) {
      const Kernel& kernel = draft.plan.kernels.front();
      const auto algorithms = cuda::product_algorithms(draft.plan, kernel, chip);
      ASSERT_FALSE(algorithms.empty());
      EXPECT_TRUE(std::ranges::is_sorted(algorithms, {}, &cuda::Algorithm::estimate));
      for (const cuda::Algorithm& algorithm : algorithms) {
        const cuda::KernelCode code = cuda::generate_product(draft.plan, kernel, chip, algorithm.name);
        const bool adds =
            cuda::multiplier_of(draft.plan, *kernel.head, chip) == cuda::Multiplier::multiply_adds;  // no parts there
        EXPECT_EQ(code.variant, (adds ? "gemm " : "gemm_sm80 ") + algorithm.name);
        EXPECT_LE(code.launches.at(0).shared_bytes, chip.block_shared_bytes) << name;
      }
    }
  }
}

TEST_P(CudaGemmSm80, LongEveryTileCompilesForEveryChip) {
  for (const char* name : kChips) {
    const cuda::Chip chip = cuda::chip_named(name);
    std::vector<std::string> sources;
    for (const Draft& draft : drafts(GetParam())) {
      const Kernel& kernel = draft.plan.kernels.front();
      if (cuda::multiplier_of(draft.plan, *kernel.head, chip) == cuda::Multiplier::multiply_adds) continue;
      for (const auto& algorithm : cuda::product_algorithms(draft.plan, kernel, chip))
        sources.push_back(cuda::generate_product(draft.plan, kernel, chip, algorithm.name).source);
    }
    expect_compile(sources, name);
  }
}

// Every tile, in the roles by turns, for one chip; and a large layer's tiles for each.
TEST(CudaGemmSm80Programs, CompileForEveryChip) {
  const Layer layer{"64x256x28x28 by 256x3x3 pad 1"};
  std::vector<Draft> large = drafts({"large", layer});
  for (Draft& draft : drafts({"large_parts", in_parts(layer)})) large.push_back(std::move(draft));
  for (const char* name : kChips) {
    const cuda::Chip chip = cuda::chip_named(name);
    std::vector<std::string> sources;
    std::size_t turn = 0;
    for (const Draft& draft : large) {
      const Kernel& kernel = draft.plan.kernels.front();
      if (cuda::multiplier_of(draft.plan, *kernel.head, chip) == cuda::Multiplier::multiply_adds) continue;
      sources.push_back(cuda::generate_product(draft.plan, kernel, chip).source);
      if (chip.architecture != kChips[0]) continue;
      for (const auto& algorithm : cuda::product_algorithms(draft.plan, kernel, chip))
        if (turn++ % 3 == 0) sources.push_back(cuda::generate_product(draft.plan, kernel, chip, algorithm.name).source);
    }
    expect_compile(sources, name);
  }
}

// Chosen for an A100, on any device; by the estimates, and by another tile or all of them.
void expect_doubles(const Draft& draft, double (*values)(Dtype, std::mt19937&), bool every_tile) {
  const std::vector<Array> expected = cuda_plans::run_in_doubles(draft, values);
  for (const auto& [name, table] : every_tile ? tables_of(draft.plan) : two_tables_of(draft.plan)) {
    const CompiledBy compiled_by(table);
    cuda_plans::expect_close(cuda_plans::run(*cuda_or_null(), draft, 2, values), expected, cuda_plans::one_rounding,
                             fmt::format("{} by {}", draft.name, name));
  }
}
void expect_doubles(const std::vector<Draft>& all, double (*values)(Dtype, std::mt19937&), bool every_tile) {
  if (!cuda_or_null()) GTEST_SKIP() << "no GPU";
  setenv("NIXIE_CHIP", "sm_80", 1);
  for (const Draft& draft : all) expect_doubles(draft, values, every_tile);
  unsetenv("NIXIE_CHIP");
}

TEST_P(CudaGemmSm80, AgreesWithDoubles) { expect_doubles(drafts(GetParam()), GetParam().values, false); }
TEST_P(CudaGemmSm80, LongAgreesWithDoublesByEveryTile) { expect_doubles(drafts(GetParam()), GetParam().values, true); }

INSTANTIATE_TEST_SUITE_P(Layers, CudaGemmSm80, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// a b of f32; a [m, k], b [k, n] in rows or in columns.
Draft f32_product(std::int64_t m, std::int64_t n, std::int64_t k, bool rows_of_b, Math math) {
  Draft d(fmt::format("{}x{}x{}", m, n, k));
  const int a = d.slot(Dtype::f32, {m, k}), b = d.slot(Dtype::f32, rows_of_b ? Shape{k, n} : Shape{n, k});
  const Strides of_b = rows_of_b ? Strides{n, 1} : Strides{1, k};
  Kernel kernel{.label = "matmul", .domain = {m, n}};
  kernel.head = Head{Matmul{math}, {{a, 0, {m, k}, {k, 1}}, {b, 0, {k, n}, of_b}}, Dtype::f32};
  kernel.stores = {d.dense(d.output(Dtype::f32, kernel.domain))};
  kernel.stages = {{.body = {cuda_plans::head()}, .stores = {{0, 0}}}};
  d.plan.kernels = {kernel};
  return d;
}

// The library multiplies and adds in f32 under `fp32`, too.
TEST(CudaGemmSm80Products, AreComputedInPartsWhereTheLibraryIsSlower) {
  const struct {
    const char* chip;
    Math math;
    std::int64_t size;
    const char* by;
  } kCases[] = {{"A100", Math::fp32, 1024, "gemm"},        {"A100", Math::fp32, 64, "cuBLASLt"},
                {"A100", Math::ieee, 1024, "cuBLASLt"},    {"A100", Math::tf32, 1024, "cuBLASLt"},
                {"RTX4090", Math::fp32, 1024, "cuBLASLt"}, {"B200", Math::fp32, 1024, "gemm"}};
  for (const auto& c : kCases) {
    const Draft draft = f32_product(c.size, c.size, c.size, true, c.math);
    EXPECT_EQ(cuda::take(draft.plan, draft.plan.kernels.front(), cuda::chip_named(c.chip))->name(), c.by)
        << c.chip << " " << c.size;
  }
}

TEST(CudaGemmSm80Products, InPartsAgreeWithDoubles) {
  expect_doubles({f32_product(1000, 520, 264, true, Math::fp32), f32_product(520, 1000, 264, false, Math::fp32)},
                 cuda_plans::any_number, false);
}

}  // namespace
}  // namespace nixie
#endif
