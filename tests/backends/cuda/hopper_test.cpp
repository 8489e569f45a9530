// Hopper's own kernels: over a table of layers they compile without spills and with the tensor cores' instructions as
// written; with a device, their results are held against the same plan in doubles on the CPU, outputs poisoned before.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <set>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/validate.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/tests/backends/cuda/compiled_by.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/hopper_cases.h"
#include "nixie/tests/backends/cuda/splitting.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/cuda_programs.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

using cuda_plans::Draft;

// Multiples of a quarter: halves hold them and small sums of their products, and equal maxima are so in any precision.
double quarters(Dtype dtype, std::mt19937& random) {
  return is_floating(dtype) ? std::uniform_int_distribution<int>(-4, 4)(random) * 0.25
                            : std::uniform_int_distribution<int>(0, 3)(random);
}

// Numbers that use all bits of f32, small ones more often.
double all_bits(Dtype dtype, std::mt19937& random) {
  if (!is_floating(dtype)) return quarters(dtype, random);
  const float x = std::uniform_real_distribution<float>(-1, 1)(random);
  return x * std::abs(x) * std::abs(x);
}

// Halves are rounded once from sums in f32, whose error is far below half a unit of theirs.
std::function<cuda_plans::Bound(Dtype)> bound(Math math) {
  return [math](Dtype dtype) {
    cuda_plans::Bound bound = cuda_plans::one_rounding(dtype);
    if (math == Math::tf32 && is_floating(dtype)) bound.of_largest = 0x1p-10;
    return bound;
  };
}

cuda::Chip hopper_for(const Plan& plan) { return splitting(cuda::chip_named("sm_90a"), plan); }

// Groups that run code written for 16-bit layers, not the portable templates.
int own_kernels(const Plan& plan, const cuda::Chip& chip) {
  const std::set<std::string> portable{"map", "reduce", "gather", "gemm", "gemm_sm80", "turn"};
  int count = 0;
  for (const Group& group : plan.groups) {
    if (cuda::blas_problem(group)) continue;
    const std::string variant = cuda::generate(plan, group, chip).variant;
    count += !portable.count(variant.substr(0, variant.find(' ')));
  }
  return count;
}

// The CPU, which runs the members of groups that were formed for the GPU.
class Replaying final : public ForwardingBackend {
 public:
  Replaying() : ForwardingBackend(make_cpu_backend(2)) {}
  Target target() const override { return {.channels_last = true, .replays_members = true}; }
  void lower(Plan& plan) override { cuda::lower(plan, hopper_for(plan)); }
};

class CudaHopper : public testing::TestWithParam<hopper_plans::Case> {};

void add_programs(CudaPrograms& programs, const hopper_plans::Case& of) {
  Plan plan = of.draft().plan;
  const cuda::Chip chip = hopper_for(plan);
  cuda::lower(plan, chip);
  plan_memory(plan);
  EXPECT_EQ(own_kernels(plan, chip), of.kernels) << of.name;
  programs.add(plan, chip, of.name);
}

TEST(CudaHopper, EachFormCompilesWithoutSpills) {
  CudaPrograms programs;
  for (const hopper_plans::Case& of : hopper_plans::cases()) add_programs(programs, of);
  programs.one_of_each_form().expect_compile("sm_90a");
}

TEST_P(CudaHopper, LongCompilesWithoutSpills) {
  CudaPrograms programs;
  add_programs(programs, GetParam());
  programs.expect_compile("sm_90a");
}

// Groups before small kernels share launches.
std::ptrdiff_t groups_of(const Plan& plan) {
  std::ptrdiff_t groups = 0;
  for (const Group& group : plan.groups) groups += 1 + std::ssize(choice_of(group).beside);
  return groups;
}

// Absorbed work must not come apart unseen, and every kernel is in one group.
TEST_P(CudaHopper, AbsorbsWhatBelongsTogether) {
  const Plan draft = GetParam().draft().plan;
  Plan plan = draft;
  cuda::lower(plan, hopper_for(plan));
  EXPECT_EQ(std::ssize(draft.kernels) - groups_of(plan), GetParam().fewer) << to_string(plan);
  const std::string& name = GetParam().name;
  const bool merges =
      std::ranges::any_of(plan.groups, [](const Group& group) { return !choice_of(group).merges.empty(); });
  // Where images are read for them, reductions move only if the estimate says that it pays.
  static const std::set<std::string> move{"norm_grad_c128", "norm_grad_c64_gate", "norm_grad_of_two_bf16",
                                          "norm_grad_patches_c64", "norm_grad_c128_tf32"};
  if (name.starts_with("norm_")) {
    EXPECT_EQ(merges, !name.starts_with("norm_grad") || move.count(name) == 1) << to_string(plan);
  }
  // What reduces all of a result reads parts alone, and the program that leaves these stores nothing else.
  if (name.starts_with("figures")) {
    const Group& reader = plan.groups.back();
    EXPECT_TRUE(merges && reader.reads.size() == 1) << to_string(plan);
    for (const Group& group : plan.groups) {
      const bool leaves = std::ranges::count(group.writes, reader.reads[0]) > 0;
      EXPECT_TRUE(!leaves || group.writes.size() == 1) << to_string(plan);
    }
  }
  std::vector<int> members;
  for (const Group& group : plan.groups) members.insert(members.end(), group.members.begin(), group.members.end());
  for (int k = 0; k < std::ssize(plan.kernels); ++k) EXPECT_EQ(members.at(static_cast<std::size_t>(k)), k);
  EXPECT_EQ(members.size(), plan.kernels.size());
}

// Members are kernels that any backend runs: one after the other they compute what the plan did.
TEST_P(CudaHopper, MembersAgreeWithDoublesOnTheCpu) {
  const Draft draft = GetParam().draft();
  std::int64_t work = 0;
  for (const Kernel& kernel : draft.plan.kernels) work = std::max(work, kernel.domain.size());
  if (work > 1 << 17) GTEST_SKIP() << "too large for the CPU";
  const auto draw = GetParam().all_bits ? all_bits : quarters;
  cuda_plans::expect_close(cuda_plans::run(*std::make_shared<Replaying>(), draft, 1, draw),
                           cuda_plans::run_in_doubles(draft, draw), bound(GetParam().math), draft.name);
}

std::shared_ptr<Backend> splitting_or_null() {
  const auto cuda = cuda_or_null();
  return cuda ? std::make_shared<Splitting>(cuda, chip_of_device()) : nullptr;
}

// By the estimates, and by the algorithms of the groups: all of them, or one.
void expect_doubles(const hopper_plans::Case& of, bool every_algorithm) {
  const auto cuda = splitting_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const Draft draft = of.draft();
  const auto draw = of.all_bits ? all_bits : quarters;
  const std::vector<Array> expected = cuda_plans::run_in_doubles(draft, draw);
  const cuda::Chip chip = splitting(chip_of_device(), draft.plan);
  for (const auto& [name, table] : every_algorithm ? tables_of(draft.plan, chip) : two_tables_of(draft.plan, chip)) {
    const CompiledBy compiled_by(table);
    cuda_plans::expect_close(cuda_plans::run(*cuda, draft, 3, draw), expected, bound(of.math),
                             fmt::format("{} by {}", draft.name, name));
  }
}

TEST_P(CudaHopper, AgreesWithDoubles) { expect_doubles(GetParam(), false); }
TEST_P(CudaHopper, LongAgreesWithDoublesByEveryAlgorithm) { expect_doubles(GetParam(), true); }

// Every group on the GPU against its members on the CPU, fused kernels included.
TEST_P(CudaHopper, GroupsAgreeWithTheirMembers) {
  const auto cuda = splitting_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  cuda_plans::run(*make_validating_backend(cuda, make_cpu_backend()), GetParam().draft(), 1,
                  GetParam().all_bits ? all_bits : quarters);
}

/// A device whose fused poolings forget the ReLU before them.
class WithoutRelu final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void lower(Plan& plan) override {
    ForwardingBackend::lower(plan);
    for (Group& group : plan.groups) {
      auto by = std::make_shared<cuda::Implementers>(dynamic_cast<const cuda::Implementers&>(*group.implementation));
      for (cuda::Choice& choice : by->choices)
        if (choice.pooled) choice.pooled->relu = false;
      group.implementation = by;
    }
  }
};

TEST(CudaHopper, AFusedKernelThatIsWrongIsNamed) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const hopper_plans::Layer layer{"3x3x33x226 by 64x3x3 pad 1"};
  const Draft draft = hopper_plans::first_layer("pooled", layer, hopper_plans::First::pooled);
  const auto broken = make_validating_backend(std::make_shared<WithoutRelu>(cuda), make_cpu_backend());
  const std::string found = error_of(Fault::device, [&] { cuda_plans::run(*broken, draft, 1, quarters); });
  EXPECT_NE(found.find("conv + max_pool x 2\" by conv_c3: element "), std::string::npos) << found;
}

// A consumer that is done with its last tile meets the others to merge parts. It must not be taken for one that takes
// its turn, for which the other still waits.
TEST(CudaHopper, ConsumersThatTakeTilesInTurnLeavePartsAndEnd) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  for (const auto what : {hopper_plans::Norm::forward, hopper_plans::Norm::backward_and_gate}) {
    const Draft draft = hopper_plans::with_norm("norm", "32x64x56x56 by 256x1x1", what);
    Plan plan = draft.plan;
    cuda->lower(plan);
    plan_memory(plan, cuda->target());
    const auto executable = cuda->compile(plan);
    std::vector<std::shared_ptr<Buffer>> buffers;
    for (int slot : plan.externals) {
      const std::vector<char> zeros(static_cast<std::size_t>(plan.slots[at(slot)].size_bytes()));
      buffers.push_back(cuda->allocate(std::ssize(zeros)));
      cuda->upload(zeros.data(), *buffers.back(), std::ssize(zeros));
    }
    for (int time = 0; time < 3000; ++time) executable->run(buffers, plan.scalars);
    cuda->synchronize();
  }
}

// 2.4 million columns: some tiles would be more than their schedule can name.
TEST(CudaHopper, LongVeryManyChannelsAgreeWithDoublesByEveryAlgorithm) {
  const hopper_plans::Layer layer{"1x65536x6x6 by 8x6x6"};
  const auto draft = [&] { return hopper_plans::filter_grad("many channels", layer, hopper_plans::Gradient::stored); };
  expect_doubles({"many channels", 1, draft}, true);
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaHopper, testing::ValuesIn(hopper_plans::cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nixie
#endif
