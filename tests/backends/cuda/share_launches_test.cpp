// Launches that small kernels share: what may share one, plans on the CPU against the same kernels one by one, programs
// that compile without spills; with a device, results against the CPU's.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/generate/shared_launch.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/compiler_log.h"

namespace nixie {
namespace {

using cuda_plans::apply;
using cuda_plans::Bound;
using cuda_plans::Draft;
using cuda_plans::load;
using cuda_plans::number;

struct Case {
  std::string name;
  Draft draft;
  std::size_t groups;  ///< of the lowered plan
};

// y = x * factor + 1, into a slot of its own or another dtype.
Kernel scale(Draft& d, int x, int y, double factor) {
  Kernel k{.label = "scale", .domain = d.plan.slots[at(x)].shape};
  k.loads = {d.dense(x)}, k.stores = {d.dense(y)};
  k.stages = {
      {.body = {load(0), number(factor), apply(Primitive::mul, {0, 1}), number(1), apply(Primitive::add, {2, 3})},
       .stores = {{4, 0}}}};
  return k;
}

int arena(Draft& d, Dtype dtype, const Shape& shape) {
  d.plan.slots.push_back({fmt::format("s{}", d.plan.slots.size()), dtype, shape, shape.row_major()});
  return static_cast<int>(d.plan.slots.size()) - 1;
}

// Sizes, ranks, constants and layouts that differ; pieces of 16 and of 4 bytes.
Draft scales(const std::vector<Shape>& shapes, Dtype dtype) {
  Draft d("scales");
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const int x = d.slot(dtype, shapes[i]), y = d.output(dtype, shapes[i]);
    d.plan.kernels.push_back(scale(d, x, y, 0.25 + 0.5 * static_cast<double>(i % 3)));
  }
  return d;
}

// y = x transposed, from columns [1, ..) with 7 outside: strides, offsets, bounds and divisors are data.
Draft transposes() {
  Draft d("transposes");
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{32, 40}, {24, 24}, {7, 16}}) {
    const int x = d.slot(Dtype::f32, {columns, rows}), y = d.output(Dtype::f16, {rows, columns});
    Kernel k{.label = "transpose", .domain = {rows, columns}};
    k.loads = {{x, -1, {1, rows}, {{1, rows}, {0, columns}}, 7}}, k.stores = {d.dense(y)};
    k.stages = {{.body = {load(0)}, .stores = {{0, 0}}}};
    d.plan.kernels.push_back(k);
  }
  return d;
}

// Momentum and weights of a net's parameters updated in place, where `ok` says so.
Draft updates(const std::vector<Shape>& shapes) {
  Draft d("updates");
  const int ok = d.slot(Dtype::u8, {1});
  for (const Shape& shape : shapes) {
    const int g = d.slot(Dtype::f16, shape), w = d.output(Dtype::f32, shape), m = d.output(Dtype::f32, shape);
    Kernel k{.label = "update", .domain = shape};
    k.loads = {d.dense(g), d.dense(w), d.dense(m), {ok, 0, Strides(static_cast<std::size_t>(shape.rank()), 0), {}, 0}};
    k.stores = {d.dense(w), d.dense(m)};
    k.stages = {{.body = {load(0), load(1), load(2), load(3, Dtype::i32), apply(Primitive::cast, {3}), number(0.5),
                          apply(Primitive::mul, {2, 5}), apply(Primitive::add, {6, 0}),
                          apply(Primitive::select, {4, 7, 2}), number(0.125), apply(Primitive::mul, {8, 9}),
                          apply(Primitive::sub, {1, 10}), apply(Primitive::select, {4, 11, 1})},
                 .stores = {{12, 0}, {8, 1}}}};
    d.plan.kernels.push_back(k);
  }
  return d;
}

// Whether all of each x is finite; or per row, the sum.
Draft reductions(const std::vector<Shape>& shapes, bool rows) {
  Draft d(rows ? "row_sums" : "finite");
  for (const Shape& shape : shapes) {
    const int x = d.slot(Dtype::f32, shape);
    Kernel k{.label = "reduce", .domain = shape};
    for (int axis = rows ? 1 : 0; axis < shape.rank(); ++axis) k.reduced.push_back(axis);
    k.loads = {d.dense(x)}, k.carried = {Dtype::f32};
    if (rows)
      k.stages = {{.body = {load(0)}, .reductions = {{ReduceKind::sum, 0, 0}}}};
    else
      k.stages = {{.body = {load(0), apply(Primitive::is_finite, {0})}, .reductions = {{ReduceKind::min, 1, 0}}}};
    const Instruction as_stored = apply(Primitive::cast, {0}, rows ? Dtype::f32 : Dtype::i32);
    k.stages.push_back({.full = false, .body = {cuda_plans::carried(0), as_stored}, .stores = {{rows ? 0 : 1, 0}}});
    k.stores = {d.dense(d.output(rows ? Dtype::f32 : Dtype::u8, kept_shape(k)))};
    d.plan.kernels.push_back(k);
  }
  return d;
}

// x -> a -> b -> c, each by the same kernel.
Draft chain() {
  Draft d("chain");
  const Shape shape{64};
  const int x = d.slot(Dtype::f32, shape), a = arena(d, Dtype::f32, shape), b = arena(d, Dtype::f32, shape);
  const int y = d.output(Dtype::f32, shape);
  d.plan.kernels = {scale(d, x, a, 2), scale(d, a, b, 2), scale(d, b, y, 2)};
  return d;
}

// Two pairs of kernels, those that are alike in turn first and last, beside a longer chain: where one pair merged the
// other would close a cycle.
Draft crossing() {
  Draft d("crossing");
  const Shape shape{64}, other{32};
  const int x0 = d.slot(Dtype::f32, shape), x1 = d.slot(Dtype::f32, other);
  const int a0 = arena(d, Dtype::f32, shape), a1 = arena(d, Dtype::f32, other);
  const int y0 = d.output(Dtype::f32, shape), y1 = d.output(Dtype::f32, other);
  const auto unary = [&](Primitive primitive, int from, int to) {
    Kernel k = scale(d, from, to, 1);
    k.stages = {{.body = {load(0), apply(primitive, {0})}, .stores = {{1, 0}}}};
    return k;
  };
  d.plan.kernels = {scale(d, x0, a0, 2), unary(Primitive::neg, a0, y0), unary(Primitive::neg, x1, a1),
                    scale(d, a1, y1, 3)};
  for (int i = 0, x = x0; i < 3; ++i) {
    const int y = i < 2 ? arena(d, Dtype::f32, shape) : d.output(Dtype::f32, shape);
    d.plan.kernels.push_back(unary(Primitive::abs, x, y));
    x = y;
  }
  return d;
}

// A value that is read, then overwritten, by kernels that could else be one.
Draft overwritten() {
  Draft d("overwritten");
  const int x = d.output(Dtype::f32, {64}), y = d.output(Dtype::f32, {64}), z = d.slot(Dtype::f32, {64});
  d.plan.kernels = {scale(d, x, y, 2), scale(d, z, x, 3)};
  return d;
}

// The copies of 40 arrays of 1 MiB, each dropped at once: together they would all be in memory.
Draft large_and_short_lived() {
  Draft d("large_and_short_lived");
  for (int i = 0; i < 40; ++i) {
    const int x = d.slot(Dtype::f32, {1 << 18}), a = arena(d, Dtype::f32, {1 << 18});
    d.plan.kernels.push_back(scale(d, x, a, 2));
    Kernel k{.label = "max", .domain = {1 << 18}, .reduced = {0}};
    k.loads = {d.dense(a)}, k.carried = {Dtype::f32};
    k.stages = {{.body = {load(0)}, .reductions = {{ReduceKind::max, 0, 0}}},
                {.full = false, .body = {cuda_plans::carried(0)}, .stores = {{0, 0}}}};
    k.stores = {d.dense(d.output(Dtype::f32, {1}))};
    d.plan.kernels.push_back(k);
  }
  return d;
}

// Layers of a net, each by a weight that is copied first: large images and small weights, then small images and large
// weights. All copies in one launch would keep the large weights beside the large images.
Draft layers() {
  Draft d("layers");
  const Shape few{64};
  int x = d.slot(Dtype::f32, {1 << 20});
  for (int i = 0; i < 12; ++i) {
    const Shape images = i < 8 ? Shape{1 << 20} : few, weights = i < 8 ? few : Shape{1 << 19};
    const int w = d.slot(Dtype::f32, weights), a = arena(d, Dtype::f32, weights);
    const int y = i < 11 ? arena(d, Dtype::f32, images) : d.output(Dtype::f32, images);
    Kernel layer = scale(d, y, y, 1);
    layer.label = "layer";
    layer.loads = {{x, 0, {1}, {}, 0}, {a, 0, {0}, {}, 0}};
    layer.stages = {{.body = {load(0), load(1), apply(Primitive::max, {0, 1})}, .stores = {{2, 0}}}};
    d.plan.kernels.insert(d.plan.kernels.end(), {scale(d, w, a, 0.5), layer});
    x = y;
  }
  return d;
}

std::vector<Shape> parameters() {
  std::vector<Shape> shapes;
  for (const std::int64_t c : {64, 128, 256, 512, 1000}) shapes.insert(shapes.end(), {{c}, {c}, {c, 64, 3, 3}});
  return shapes;
}

std::vector<Case> cases() {
  std::vector<Shape> many(150, Shape{24});
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = {8 * (1 + static_cast<std::int64_t>(i * 37 % 61))};
  return {
      {"scales", scales({{64}, {128, 4}, {32, 2, 2}, {1024}}, Dtype::f32), 1},
      {"scales_f16", scales({{64}, {128, 4}, {8}, {12, 2}}, Dtype::f16), 1},
      {"scales_odd", scales({{64}, {63}, {7, 9}, {128}}, Dtype::f32), 2},
      {"transposes", transposes(), 1},
      {"updates", updates(parameters()), 1},
      {"finite", reductions(parameters(), false), 3},
      {"row_sums", reductions({{64, 256}, {32, 256}, {100, 256}}, true), 1},
      {"more_than_fit", scales(many, Dtype::f32), 2},
      {"chain", chain(), 3},
      {"crossing", crossing(), 6},
      {"overwritten", overwritten(), 2},
      {"large_and_short_lived", large_and_short_lived(), 16},
      {"layers", layers(), 16},
  };
}

Plan lowered(const Draft& draft, const std::string& architecture = "sm_90a") {
  Plan plan = draft.plan;
  cuda::lower(plan, cuda::chip_named(architecture));
  plan_memory(plan, {.overlaps = true});
  return plan;
}

double any_number(Dtype dtype, std::mt19937& random) {
  return is_floating(dtype) ? std::uniform_int_distribution<int>(-8, 8)(random) * 0.125 : 1;
}

class CudaSharedLaunches : public testing::TestWithParam<Case> {};

TEST_P(CudaSharedLaunches, AreAsManyAsExpected) {
  const Plan plan = lowered(GetParam().draft);
  EXPECT_EQ(plan.groups.size(), GetParam().groups);
  std::size_t members = 0;
  for (const Group& group : plan.groups) members += group.members.size();
  EXPECT_EQ(members, GetParam().draft.plan.kernels.size());
  Plan alone = GetParam().draft.plan;
  plan_memory(alone, {.overlaps = true});
  const auto before = static_cast<double>(alone.arena_bytes);
  EXPECT_LE(static_cast<double>(plan.arena_bytes), std::max(1.02 * before, before + (4 << 20)));
}

TEST_P(CudaSharedLaunches, ChangeNoResult) {
  const auto cpu = make_cpu_backend(2);
  Draft shared = GetParam().draft;
  cuda::lower(shared.plan, cuda::chip_named("sm_90a"));
  cuda_plans::expect_close(cuda_plans::run(*cpu, shared, 1, any_number),
                           cuda_plans::run(*cpu, GetParam().draft, 1, any_number), Bound{}, GetParam().name);
}

void expect_compiles(const Draft& draft, const std::string& architecture) {
  const Plan plan = lowered(draft, architecture);
  std::vector<std::string> sources;
  for (const Group& group : plan.groups)
    sources.push_back(cuda::generate(plan, group, cuda::chip_named(architecture)).source);
  const std::vector<cuda::Cubin> cubins = cuda::compile_sources(sources, architecture);
  for (std::size_t i = 0; i < cubins.size(); ++i) {
    EXPECT_FALSE(cubins[i].code.empty());
    EXPECT_EQ(cuda::complaints(cubins[i].log), "") << sources[i];
    // The table is read in place: nobody copies it to memory of a thread's own.
    EXPECT_NE(cubins[i].log.find(" 0 bytes stack frame"), std::string::npos) << cubins[i].log;
  }
}

TEST_P(CudaSharedLaunches, CompileWithoutSpills) { expect_compiles(GetParam().draft, "sm_90a"); }
TEST_P(CudaSharedLaunches, LongCompileForOtherChips) {
  for (const char* architecture : {"sm_80", "sm_100"}) expect_compiles(GetParam().draft, architecture);
}

TEST_P(CudaSharedLaunches, AgreeWithTheCpu) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  // eighths: every sum is exact
  cuda_plans::expect_close(cuda_plans::run(*cuda, GetParam().draft, 3, any_number),
                           cuda_plans::run(*make_cpu_backend(), GetParam().draft, 1, any_number), Bound{},
                           GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(Plans, CudaSharedLaunches, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

cuda::OneLaunch launch_of(const std::string& body) {
  return {.includes = "#include \"map.cuh\"\n",
          .body = "struct Body {\n" + body + "};\n",
          .call = "map",
          .bounds = "256",
          .arguments = {{0, 0}},
          .blocks = 2,
          .threads = 256};
}

std::string body_of(const std::string& size, const std::string& stride, const std::string& factor) {
  return "  static constexpr Index kGroups = " + size + ";\n  static constexpr int kThreads = 256;\n  f32* store0;\n" +
         "  void run(Index a0) const { store0[a0 * " + stride + " / " + stride + " + 3] = " + factor + " * r1; }\n";
}

TEST(CudaSharedLaunchText, NumbersThatDifferAreMembers) {
  const cuda::KernelCode code =
      cuda::share_launch({launch_of(body_of("64", "7", "0.5f")), launch_of(body_of("9", "12", "1e-05f"))});
  EXPECT_NE(code.source.find("  alignas(8) Index kGroups;\n  static constexpr int kThreads = 256;\n"),
            std::string::npos);
  EXPECT_NE(code.source.find("store0[a0 * n0 / n0 + 3] = n1 * r1"), std::string::npos) << code.source;
  EXPECT_NE(code.source.find("  alignas(8) int n0;\n  alignas(8) f32 n1;\n};"), std::string::npos) << code.source;
  std::vector<std::int64_t> words;
  for (std::size_t i = 0; i < 11; ++i)
    words.push_back(code.arguments[i].slot == cuda::Argument::kNumber ? code.arguments[i].offset_bytes : -1);
  EXPECT_EQ(words, (std::vector<std::int64_t>{2, 0, 64, -1, 7, 0x3f000000, 2, 9, -1, 12, 0x3727c5ac}));
  EXPECT_EQ(code.launches.at(0).blocks, 4);
}

TEST(CudaSharedLaunchText, PatternsTellWhatIsCompiled) {
  const std::string one = cuda::pattern_of(launch_of(body_of("64", "7", "0.5f")));
  EXPECT_EQ(one, cuda::pattern_of(launch_of(body_of("1", "1024", "3.25f"))));
  for (const char* other : {"0.5", "1", "(-0.5f)", "f16{0x3c00}", "f16{0x3800}", "g", "filled<4>(0)", "filled<8>(0)"})
    EXPECT_NE(one, cuda::pattern_of(launch_of(body_of("64", "7", other)))) << other;
  EXPECT_NE(cuda::pattern_of(launch_of(body_of("64", "7", "f16{0x3c00}"))),
            cuda::pattern_of(launch_of(body_of("64", "7", "f16{0x3800}"))));
  EXPECT_NE(cuda::pattern_of(launch_of("  static constexpr int kThreads = 256;\n")),
            cuda::pattern_of(launch_of("  static constexpr int kThreads = 128;\n")));
  EXPECT_NE(cuda::pattern_of(launch_of("  Vector<f32, 4> load0;\n")),
            cuda::pattern_of(launch_of("  Vector<f32, 2> load0;\n")));
}

// A count, then rows of five words, as many as fit 4 KB.
TEST(CudaSharedLaunchText, RefusesMoreThanFit) {
  const std::vector<cuda::OneLaunch> some{launch_of(body_of("64", "7", "0.5f")), launch_of(body_of("9", "1", "0.75f"))};
  EXPECT_EQ(cuda::most_in_one_launch(some), 511u / 5);
  EXPECT_THROW(cuda::share_launch(std::vector<cuda::OneLaunch>(600, some[0])), Error);
}

}  // namespace
}  // namespace nixie
#endif
