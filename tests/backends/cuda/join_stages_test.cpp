// Reductions and the kernels behind them as one: which join, plans on the CPU with the joined kernels against those of
// the kernels one by one, programs of one launch that compile without spills; with a device, results against the CPU's.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/norm_plans.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

using cuda_plans::apply;
using cuda_plans::carried;
using cuda_plans::Draft;
using cuda_plans::load;
using cuda_plans::number;
using hopper_plans::image;
using hopper_plans::image_output;
using hopper_plans::internal;

const Shape kImages{4, 16, 12, 12};

Access by_channel(int slot, std::int64_t offset = 0) { return {slot, offset, {0, 1, 0, 0}, {}, 0}; }

// Two numbers of each channel of x: half of the largest magnitude, and one over it.
Kernel find_scales(const Access& x, const Shape& shape, int scales, Axes reduced = {0, 2, 3}) {
  Kernel k{.label = "scales", .domain = shape, .reduced = std::move(reduced), .loads = {x}, .carried = {Dtype::f32}};
  k.stores = {by_channel(scales), by_channel(scales, shape[1])};
  k.stages = {
      {.body = {load(0), apply(Primitive::abs, {0})}, .reductions = {{ReduceKind::max, 1, 0}}},
      {.full = false,
       .body = {carried(0), number(0.5), apply(Primitive::mul, {0, 1}), number(1), apply(Primitive::div, {3, 2})},
       .stores = {{2, 0}, {4, 1}}}};
  return k;
}

// y = x / scale, in halves, and the rest.
Kernel fill(Draft& d, const Access& x, const Shape& shape, const Access& scale) {
  Kernel k{.label = "planes", .domain = shape, .loads = {x, scale}};
  for (int i = 0; i < 2; ++i) k.stores.push_back(d.dense(image_output(d, Dtype::f16, shape)));
  k.stages = {{.body = {load(0), load(1), apply(Primitive::mul, {0, 1}), apply(Primitive::round_f16, {2}),
                        apply(Primitive::sub, {2, 3})},
               .stores = {{3, 0}, {4, 1}}}};
  return k;
}

// The split of a slot's images, as lowering writes it.
void split(Draft& d, int x, const Shape& shape, Axes reduced = {0, 2, 3}) {
  const int scales = internal(d, Dtype::f32, {2, shape[1]}, Shape{2, shape[1]}.row_major());
  d.plan.kernels.push_back(find_scales(d.dense(x), shape, scales, std::move(reduced)));
  d.plan.kernels.push_back(fill(d, d.dense(x), shape, by_channel(scales, shape[1])));
}

Draft alone(const Shape& shape) {
  Draft d("alone");
  split(d, image(d, Dtype::f32, shape), shape);
  return d;
}

enum class Behind { split, two_splits, other_axes, slice, another_reader, overwritten, costly, halves };

// y = (x - mean) * rsqrt(variance), which stays in the arena, and kernels that read it.
Draft normalised(const std::string& name, Behind what, const Shape& shape = kImages) {
  Draft d(name);
  const Dtype dtype = what == Behind::halves ? Dtype::f16 : Dtype::f32;
  Kernel norm = hopper_plans::normalisation(d, {image(d, dtype, shape)}, shape);
  const int y = internal(d, dtype, shape, shape.channels_last());
  d.outputs.pop_back();
  norm.stores.back().slot = y;
  if (what == Behind::costly) {
    Stage& last = norm.stages.back();
    last.body.push_back(apply(Primitive::erf, {last.stores[0].value}));
    last.stores[0].value = static_cast<int>(last.body.size()) - 1;
  }
  d.plan.kernels.push_back(norm);
  if (what == Behind::slice) {
    Access part = d.dense(y);
    part.offset = 8;
    const Shape half{shape[0], shape[1] - 8, shape[2], shape[3]};
    const int scales = internal(d, Dtype::f32, {2, half[1]}, Shape{2, half[1]}.row_major());
    d.plan.kernels.push_back(find_scales(part, half, scales));
    d.plan.kernels.push_back(fill(d, part, half, by_channel(scales, half[1])));
    return d;
  }
  if (what == Behind::overwritten) {
    Kernel again{.label = "again", .domain = shape, .loads = {d.dense(image(d, dtype, shape))}, .stores = {d.dense(y)}};
    again.stages = {{.body = {load(0)}, .stores = {{0, 0}}}};
    d.plan.kernels.push_back(again);
  }
  if (what == Behind::another_reader) {
    Kernel rows{.label = "rows", .domain = shape, .reduced = {1}, .loads = {d.dense(y)}, .carried = {Dtype::f32}};
    rows.stages = {{.body = {load(0)}, .reductions = {{ReduceKind::max, 0, 0}}},
                   {.full = false, .body = {carried(0)}, .stores = {{0, 0}}}};
    rows.stores = {d.dense(d.output(Dtype::f32, kept_shape(rows)))};
    d.plan.kernels.push_back(rows);
  }
  split(d, y, shape, what == Behind::other_axes ? Axes{0, 2} : Axes{0, 2, 3});
  if (what == Behind::two_splits) split(d, y, shape);
  if (what == Behind::other_axes) {  // a scale for each channel and column
    const int scales = internal(d, Dtype::f32, {2, shape[1], shape[3]}, Shape{2, shape[1], shape[3]}.row_major());
    const std::int64_t count = shape[1] * shape[3];
    for (std::size_t k : {1u, 2u})
      for (auto* accesses : {&d.plan.kernels[k].loads, &d.plan.kernels[k].stores})
        for (Access& access : *accesses)
          if (access.strides == Strides{0, 1, 0, 0})
            access = {scales, access.offset > 0 ? count : 0, {0, shape[3], 0, 1}, {}, 0};
  }
  return d;
}

struct Case {
  Draft draft;
  std::size_t groups;   ///< of the lowered plan
  bool is_stored;       ///< whether a program stores what is split
  double bound = 1e-4;  ///< of results beside the CPU's; a half plane alone is 5e-4 off
};

std::vector<Case> cases() {
  return {
      {alone(kImages), 1, false},
      {normalised("split", Behind::split), 1, false},
      {normalised("two_splits", Behind::two_splits), 1, false},
      {normalised("few_channels", Behind::split, {16, 8, 40, 40}), 1, false},
      {normalised("many_channels", Behind::split, {2, 1024, 7, 7}), 1, false},
      {normalised("another_reader", Behind::another_reader), 2, true},
      {normalised("other_axes", Behind::other_axes), 2, true},
      {normalised("slice", Behind::slice), 2, true},
      {normalised("overwritten", Behind::overwritten), 3, true},
      {normalised("costly", Behind::costly), 2, true},
      {normalised("halves", Behind::halves), 2, true, 2e-3},  // what is split is rounded to halves
  };
}

Plan lowered(const Draft& draft, const std::string& architecture = "sm_90a") {
  Plan plan = draft.plan;
  cuda::lower(plan, cuda::chip_named(architecture));
  plan_memory(plan, {.overlaps = true});
  return plan;
}

double any_number(Dtype, std::mt19937& random) {
  return std::uniform_int_distribution<int>(-800, 800)(random) * 0.0125;
}

class CudaJoinedStages : public testing::TestWithParam<Case> {};

TEST_P(CudaJoinedStages, AreAsManyAsExpected) {
  const Plan plan = lowered(GetParam().draft);
  EXPECT_EQ(plan.groups.size(), GetParam().groups);
  std::size_t members = 0;
  bool is_stored = false;
  for (const Group& group : plan.groups) {
    members += group.members.size();
    for (int slot : group.writes) is_stored |= plan.slots[at(slot)].shape.rank() == 4 && !plan.slots[at(slot)].external;
  }
  EXPECT_EQ(members, GetParam().draft.plan.kernels.size());
  EXPECT_EQ(is_stored, GetParam().is_stored);
}

// The same plan with kernels as programs have them.
TEST_P(CudaJoinedStages, ChangeNoResult) {
  const auto cpu = make_cpu_backend(2);
  Draft joined = GetParam().draft;
  cuda::lower(joined.plan, cuda::chip_named("sm_90a"));
  joined.plan.kernels.clear();
  for (const Group& group : joined.plan.groups) joined.plan.kernels.push_back(choice_of(group).kernel);
  joined.plan.groups.clear();
  const std::vector<Array> expected = cuda_plans::run(*cpu, GetParam().draft, 1, any_number),
                           found = cuda_plans::run(*cpu, joined, 1, any_number);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(0, std::memcmp(found[i].bytes(), expected[i].bytes(), static_cast<std::size_t>(found[i].size_bytes())))
        << GetParam().draft.name << ": output " << i;
}

void expect_compiles(const Draft& draft, const std::string& architecture) {
  const Plan plan = lowered(draft, architecture);
  CudaPrograms programs;
  for (const Group& group : plan.groups) {
    const cuda::KernelCode code = cuda::generate(plan, group, cuda::chip_named(architecture));
    EXPECT_EQ(code.launches.size(), 1u) << draft.name << ": " << group.members.size();
    programs.add(code, "", draft.name);
  }
  programs.expect_compile(architecture);
}

TEST_P(CudaJoinedStages, CompileWithoutSpills) { expect_compiles(GetParam().draft, "sm_90a"); }
TEST_P(CudaJoinedStages, LongCompileForOtherChips) {
  for (const char* architecture : {"sm_80", "sm_100"}) expect_compiles(GetParam().draft, architecture);
}

// The numbers of two planes: where the first differ by a rounding, the second make up for it.
Array sum(const Array& high, const Array& low) {
  std::vector<double> numbers = high.to_vector<double>();
  const std::vector<double> rest = low.to_vector<double>();
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += rest[i];
  return Array::from(numbers, high.shape());
}

TEST_P(CudaJoinedStages, AgreeWithTheCpu) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const std::vector<Array> expected = cuda_plans::run(*make_cpu_backend(), GetParam().draft, 1, any_number),
                           found = cuda_plans::run(*cuda, GetParam().draft, 20, any_number);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool in_planes = found[i].dtype() == Dtype::f16;
    cuda_plans::expect_close(in_planes ? sum(found[i], found[i + 1]) : found[i],
                             in_planes ? sum(expected[i], expected[i + 1]) : expected[i],
                             {.of_itself = GetParam().bound, .of_largest = GetParam().bound}, GetParam().draft.name);
    i += in_planes;
  }
}

// Blocks that share channels meet twice, and leave their parts at two places.
TEST(CudaJoinedStagesText, BlocksMeetBehindEachReduction) {
  const Plan plan = lowered(normalised("few_channels", Behind::split, {16, 8, 40, 40}));
  const cuda::KernelCode code = cuda::generate(plan, plan.groups.at(0), cuda::chip_named("sm_90a"));
  ASSERT_EQ(code.launches.size(), 1u);
  EXPECT_TRUE(code.launches[0].meets);
  EXPECT_EQ(code.source.find("kNextParts = 0;"), std::string::npos) << code.source;
}

// All that goes over the same positions at a time goes over them once.
TEST(CudaJoinedStagesText, SplitsShareStages) {
  const Plan plan = lowered(normalised("two_splits", Behind::two_splits));
  std::string stages;
  for (const Stage& stage : choice_of(plan.groups.at(0)).kernel.stages) stages += stage.full ? 'f' : 'k';
  EXPECT_EQ(stages, "fkfkf");  // moments, their scale, magnitudes, scales, planes
}

INSTANTIATE_TEST_SUITE_P(Plans, CudaJoinedStages, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.draft.name; });

}  // namespace
}  // namespace nixie
#endif
