// Reduction kernels of the CPU backend against the reference: kinds, axes, layouts, several stages, accuracy.
#include <gtest/gtest.h>

#include <limits>

#include "nixie/tests/backends/plan_runner.h"

namespace nixie::testing {
namespace {

constexpr ReduceKind kKinds[] = {ReduceKind::sum,    ReduceKind::prod,   ReduceKind::max,  ReduceKind::min,
                                 ReduceKind::argmax, ReduceKind::argmin, ReduceKind::mean, ReduceKind::m2};

bool is_position(ReduceKind kind) { return kind == ReduceKind::argmax || kind == ReduceKind::argmin; }

/// An access over the kept positions of a kernel, dense.
Access kept_access(int slot, const Kernel& kernel) {
  Access access{.slot = slot, .strides = kept_shape(kernel).row_major()};
  for (int axis : kernel.reduced) access.strides[static_cast<std::size_t>(axis)] = 0;
  return access;
}

Shape kept(const Kernel& kernel) {  // a slot of the kept shape; reduced axes of size 0 are 1 there
  return kept_shape(kernel);
}

// Stores every kind of reduction of one load.
PlanCase all_kinds(const Shape& domain, const Axes& reduced, Dtype type, std::mt19937& random,
                   Access* layout = nullptr) {
  PlanCase c;
  Kernel kernel{.label = "reduce", .domain = domain, .reduced = reduced};
  const bool integer = type == Dtype::i32;
  const int x = c.slot(type, domain, random, integer ? -9 : 0.5, integer ? 9 : 1.5);
  kernel.loads = {layout ? *layout : dense(x, domain)};
  Stage full, after;
  full.body = {load(0, type)};
  after.full = false;
  for (ReduceKind kind : kKinds) {
    if (integer && (kind == ReduceKind::mean || kind == ReduceKind::m2)) continue;
    const Dtype result = is_position(kind) ? Dtype::i32 : type;
    const int i = static_cast<int>(kernel.carried.size());
    full.reductions.push_back({.kind = kind, .value = 0, .carried = i});
    kernel.carried.push_back(result);
    after.body.push_back({.primitive = Primitive::carried, .type = result, .index = i});
    kernel.stores.push_back(kept_access(c.slot(result, kept(kernel), random), kernel));
    after.stores.push_back({.value = i, .access = i});
  }
  kernel.stages = {full, after};
  c.plan.kernels = {kernel};
  return c;
}

struct AxesRow {
  Shape domain;
  Axes reduced;
};
const AxesRow kRows[] = {
    {{1}, {}},
    {{5}, {0}},
    {{1000}, {0}},
    {{3, 4}, {1}},
    {{3, 4}, {0}},
    {{100, 10}, {1}},
    {{100, 10}, {0}},
    {{7, 1500}, {1}},
    {{1500, 7}, {0}},
    {{64, 2048}, {1}},
    {{64, 2048}, {0}},
    {{4, 3, 7, 7}, {0, 2, 3}},
    {{4, 3, 7, 7}, {1}},
    {{4, 30, 7, 7}, {2, 3}},
    {{2, 3, 4, 5, 6}, {0, 2, 4}},
    {{2, 3, 4, 5, 6}, {1, 3}},
    {{200, 300, 3}, {0, 1}},
    {{3, 200, 300}, {1, 2}},
    {{5, 0, 3}, {1}},
    {{0, 4}, {0}},
    {{0, 4}, {1}},
    {{130, 33}, {0, 1}},
};

TEST(CpuReduce, EveryKindOverEveryAxes) {
  std::mt19937 random(1);
  for (const AxesRow& row : kRows)
    for (Dtype type : {Dtype::f32, Dtype::f64, Dtype::i32}) {
      SCOPED_TRACE(to_string(row.domain));
      const PlanCase c = all_kinds(row.domain, row.reduced, type, random);
      check_plan(c, type == Dtype::f64 ? 2000 : 64, 1e-3);  // products in float round once per factor
    }
}

TEST(CpuReduce, PermutedAndReversedInputs) {
  std::mt19937 random(2);
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 draw(seed);
    const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(draw); };
    std::vector<std::int64_t> sizes;
    for (int rank = pick(1, 4); rank > 0; --rank)
      sizes.push_back(std::array{1, 2, 3, 7, 19, 40}[static_cast<std::size_t>(pick(0, 5))]);
    const Shape domain(sizes);
    Axes reduced, order = all_axes(domain);
    for (int axis : order)
      if (pick(0, 1) && domain[axis] != 1) reduced.push_back(axis);
    std::shuffle(order.begin(), order.end(), draw);
    Access layout{.slot = 0, .strides = Strides(sizes.size())};
    std::int64_t stride = 1;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      const bool reversed = pick(0, 4) == 0;
      layout.strides[static_cast<std::size_t>(*axis)] = reversed ? -stride : stride;
      if (reversed) layout.offset += stride * (domain[*axis] - 1);
      stride *= domain[*axis];
    }
    SCOPED_TRACE(seed);
    check_plan(all_kinds(domain, reduced, pick(0, 1) ? Dtype::f32 : Dtype::i32, random, &layout), 64, 1e-3);
    if (HasFailure()) return;
  }
}

TEST(CpuReduce, TiesAndNaNs) {
  std::mt19937 random(3);
  for (const AxesRow& row : {AxesRow{{40, 3000}, {1}}, AxesRow{{3000, 40}, {0}}, AxesRow{{100000}, {0}}})
    for (Dtype type : {Dtype::f32, Dtype::i32})
      for (bool with_nan : {false, true}) {
        PlanCase c = all_kinds(row.domain, row.reduced, type, random);
        for (std::int64_t i = 0; i < row.domain.size(); ++i) {  // few values, so that every extreme is met often
          const bool nan = with_nan && is_floating(type) && random() % 1500 == 0;
          set_element(c.memory[0], type, i, nan ? std::nan("") : static_cast<double>(random() % 3));
        }
        std::vector<Bytes> expected = c.memory;
        run_reference(c.plan, expected);
        const std::vector<Bytes> got = run_on_cpu(c, 2);
        for (std::size_t slot : {3u, 4u, 5u, 6u}) EXPECT_EQ(got[slot], expected[slot]) << "kind " << slot - 1;
      }
}

// softmax: max, then exp and sum, then the quotient.
PlanCase softmax(const Shape& domain, const Axes& axes, Dtype type, std::mt19937& random) {
  PlanCase c;
  Kernel kernel{.label = "softmax", .domain = domain, .reduced = axes};
  kernel.loads = {dense(c.slot(type, domain, random, -30, 30), domain)};
  kernel.stores = {dense(c.slot(type, domain, random), domain)};
  kernel.carried = {type, type};
  const Instruction top{.primitive = Primitive::carried, .type = type, .index = 0};
  Stage first, second, third;
  first.body = {load(0, type)};
  first.reductions = {{.kind = ReduceKind::max, .value = 0, .carried = 0}};
  second.body = {load(0, type), top, apply(Primitive::sub, type, {0, 1, -1}), apply(Primitive::exp, type, {2, -1, -1})};
  second.reductions = {{.kind = ReduceKind::sum, .value = 3, .carried = 1}};
  third.body = second.body;
  third.body.push_back({.primitive = Primitive::carried, .type = type, .index = 1});
  third.body.push_back(apply(Primitive::div, type, {3, 4, -1}));
  third.stores = {{.value = 5, .access = 0}};
  kernel.stages = {first, second, third};
  c.plan.kernels = {kernel};
  return c;
}

TEST(CpuReduce, Softmax) {
  std::mt19937 random(4);
  for (const AxesRow& row : {AxesRow{{5, 10}, {1}}, AxesRow{{300, 10}, {1}}, AxesRow{{100, 1000}, {1}},
                             AxesRow{{2, 100000}, {1}}, AxesRow{{8, 21, 33}, {1}}, AxesRow{{1000, 70}, {0}}})
    for (Dtype type : {Dtype::f32, Dtype::f64})
      check_plan(softmax(row.domain, row.reduced, type, random), type == Dtype::f64 ? 1000 : 30, 1e-3);
}

// Batch norm over axes 0, 2, 3: mean and m2, a kept stage for the scale and the running mean, then the normalisation.
TEST(CpuReduce, BatchNorm) {
  std::mt19937 random(5);
  for (const Shape& domain : {Shape{2, 3, 4, 5}, Shape{16, 20, 7, 7}, Shape{32, 3, 40, 40}, Shape{8, 200, 1, 1}}) {
    PlanCase c;
    Kernel kernel{.label = "batch_norm", .domain = domain};
    for (int axis : {0, 2, 3})
      if (domain[axis] != 1) kernel.reduced.push_back(axis);
    const Dtype f = Dtype::f32;
    const Shape channels{domain[1]};
    const double n = static_cast<double>(domain.size() / domain[1]);
    kernel.loads = {dense(c.slot(f, domain, random, 4, 6), domain),
                    {.slot = c.slot(f, channels, random), .strides = {0, 1, 0, 0}}};
    const int running = c.slot(f, channels, random);
    kernel.loads.push_back({.slot = running, .strides = {0, 1, 0, 0}});
    kernel.stores = {dense(c.slot(f, domain, random), domain), {.slot = running, .strides = {0, 1, 0, 0}}};
    kernel.carried = {f, f, f};
    const auto carried = [&](int i) { return Instruction{.primitive = Primitive::carried, .index = i}; };
    Stage first, second, third;
    first.body = {load(0, f)};
    first.reductions = {{.kind = ReduceKind::mean, .value = 0, .carried = 0},
                        {.kind = ReduceKind::m2, .value = 0, .carried = 1}};
    second.full = false;
    second.body = {carried(0),
                   carried(1),
                   constant(1 / n, f),
                   apply(Primitive::mul, f, {1, 2, -1}),
                   apply(Primitive::rsqrt, f, {3, -1, -1}),
                   load(2, f),
                   apply(Primitive::add, f, {5, 0, -1})};
    second.stores = {{.value = 6, .access = 1}};
    second.carries = {{.value = 4, .carried = 2}};
    third.body = {load(0, f),
                  carried(0),
                  carried(2),
                  load(1, f),
                  apply(Primitive::sub, f, {0, 1, -1}),
                  apply(Primitive::mul, f, {4, 2, -1}),
                  apply(Primitive::mul, f, {5, 3, -1})};
    third.stores = {{.value = 6, .access = 0}};
    kernel.stages = {first, second, third};
    c.plan.kernels = {kernel};
    check_plan(c, 40);
  }
}

double full_sum(ReduceKind kind, std::int64_t n, double mean, std::mt19937& random, double& exact) {
  PlanCase c;
  const Shape domain{n};
  Kernel kernel{.label = "sum", .domain = domain, .reduced = {0}};
  kernel.loads = {dense(c.slot(Dtype::f32, domain, random, mean - 1, mean + 1), domain)};
  kernel.stores = {{.slot = c.slot(Dtype::f32, {}, random), .strides = {0}}};
  kernel.carried = {Dtype::f32};
  Stage first, second;
  first.body = {load(0, Dtype::f32)};
  first.reductions = {{.kind = kind, .value = 0, .carried = 0}};
  second.full = false;
  second.body = {{.primitive = Primitive::carried}};
  second.stores = {{.value = 0, .access = 0}};
  kernel.stages = {first, second};
  c.plan.kernels = {kernel};
  long double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += element(c.memory[0], Dtype::f32, i);
  for (std::int64_t i = 0; i < n; ++i) {
    const long double d = element(c.memory[0], Dtype::f32, i) - sum / static_cast<long double>(n);
    squares += d * d;
  }
  exact = static_cast<double>(kind == ReduceKind::m2 ? squares : sum);
  const std::vector<Bytes> one = run_on_cpu(c, 1);
  EXPECT_EQ(one, run_on_cpu(c, 16));
  return element(one[1], Dtype::f32, 0);
}

TEST(CpuReduce, LongSumsInFloatStayAccurate) {
  std::mt19937 random(6);
  double exact = 0;
  const double sum = full_sum(ReduceKind::sum, 5000000, 1, random, exact);
  EXPECT_NEAR(sum, exact, 3e-7 * exact);
  const double m2 = full_sum(ReduceKind::m2, 1000000, 1000, random, exact);  // where sums of squares cancel
  EXPECT_NEAR(m2, exact, 1e-5 * exact);
}

TEST(CpuReduce, RefusesMalformedKernels) {
  const auto backend = make_cpu_backend(1);
  std::mt19937 random(7);
  const PlanCase good = all_kinds({3, 4}, {1}, Dtype::f32, random);
  EXPECT_NO_THROW(backend->compile(good.plan));
  Plan plan = good.plan;
  plan.kernels[0].stages[0].full = false;
  EXPECT_THROW(backend->compile(plan), Error);
  plan = all_kinds({3, 4}, {1}, Dtype::i32, random).plan;
  plan.kernels[0].stages[0].reductions[0].kind = ReduceKind::mean;
  EXPECT_THROW(backend->compile(plan), Error);
  plan = good.plan;
  plan.kernels[0].stages[0].reductions[0].carried = 99;
  EXPECT_THROW(backend->compile(plan), Error);
}

}  // namespace
}  // namespace nixie::testing
