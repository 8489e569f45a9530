// Map kernels of the CPU backend against the reference: primitives, accesses, conversions, random numbers.
#include <gtest/gtest.h>

#include <limits>

#include "nixie/core/base/random.h"
#include "nixie/tests/backends/plan_runner.h"

namespace nixie::testing {
namespace {

constexpr Dtype kComputeTypes[] = {Dtype::f32, Dtype::f64, Dtype::i32};

struct PrimitiveRow {
  Primitive primitive;
  double low, high;  // of the operands
  double ulps = 1;   // in f32; f64 calls libm or Eigen, within 4
  bool integers = true;
};

const PrimitiveRow kPrimitives[] = {
    {Primitive::neg, -9, 9},
    {Primitive::abs, -9, 9},
    {Primitive::add, -9, 9},
    {Primitive::sub, -9, 9},
    {Primitive::mul, -9e4, 9e4},
    {Primitive::div, -9, 9},
    {Primitive::mod, -9, 9},
    {Primitive::pow, 0.1, 6, 6},
    {Primitive::min, -9, 9},
    {Primitive::max, -9, 9},
    {Primitive::equal, -2, 2},
    {Primitive::not_equal, -2, 2},
    {Primitive::less, -2, 2},
    {Primitive::less_equal, -2, 2},
    {Primitive::logical_and, -1, 1},
    {Primitive::logical_or, -1, 1},
    {Primitive::logical_not, -1, 1},
    {Primitive::select, -1, 1},
    {Primitive::is_finite, -1, 1},
    {Primitive::is_nan, -1, 1},
    {Primitive::sqrt, 0, 9, 1, false},
    {Primitive::rsqrt, 0.01, 9, 2, false},
    {Primitive::exp, -20, 20, 4, false},
    {Primitive::exp2, -20, 20, 4, false},
    {Primitive::expm1, -4, 4, 4, false},
    {Primitive::log, 0.01, 100, 2, false},
    {Primitive::log2, 0.01, 100, 2, false},
    {Primitive::log1p, -0.9, 10, 3, false},
    {Primitive::sin, -20, 20, 2, false},
    {Primitive::cos, -20, 20, 2, false},
    {Primitive::tan, -1.4, 1.4, 1, false},
    {Primitive::asin, -1, 1, 2, false},
    {Primitive::acos, -1, 1, 2, false},
    {Primitive::atan, -9, 9, 2, false},
    {Primitive::atan2, -9, 9, 2, false},
    {Primitive::sinh, -9, 9, 4, false},
    {Primitive::cosh, -9, 9, 4, false},
    {Primitive::tanh, -9, 9, 6, false},
    {Primitive::erf, -4, 4, 1, false},
    {Primitive::erfc, -4, 9, 6, false},
    {Primitive::floor, -9, 9},
    {Primitive::ceil, -9, 9},
    {Primitive::round, -9, 9},
    {Primitive::trunc, -9, 9},
    {Primitive::binade, -9, 9, 0, false},
    {Primitive::copysign, -9, 9, 0, false},
};
const PrimitiveRow kBitPrimitives[] = {
    {Primitive::bit_and, -1e6, 1e6}, {Primitive::bit_or, -1e6, 1e6},  {Primitive::bit_xor, -1e6, 1e6},
    {Primitive::bit_not, -1e6, 1e6}, {Primitive::shift_left, -9, 40}, {Primitive::shift_right, -9, 40},
};

// out = primitive(a, b, c) over n elements, c nonsense where it is not read.
PlanCase primitive_case(const PrimitiveRow& row, Dtype type, std::int64_t n, std::mt19937& random) {
  PlanCase c;
  const Shape domain{n};
  Kernel kernel{.label = std::string(to_string(row.primitive)), .domain = domain};
  Stage stage;
  std::array<int, 3> args{-1, -1, -1};
  for (int i = 0; i < arity(row.primitive); ++i) {
    kernel.loads.push_back(dense(c.slot(type, domain, random, row.low, row.high), domain));
    stage.body.push_back(load(i, type));
    args[static_cast<std::size_t>(i)] = i;
  }
  stage.body.push_back(apply(row.primitive, type, args));
  kernel.stores.push_back(dense(c.slot(type, domain, random), domain));
  stage.stores.push_back({.value = arity(row.primitive), .access = 0});
  kernel.stages.push_back(stage);
  c.plan.kernels.push_back(kernel);
  return c;
}

void check_primitive(const PrimitiveRow& row, Dtype type) {
  std::mt19937 random(1);
  SCOPED_TRACE(to_string(row.primitive));
  for (std::int64_t n : {0, 1, 15, 16, 1000, 3001}) {
    const PlanCase c = primitive_case(row, type, n, random);
    check_plan(c, type == Dtype::f64 ? 4 : row.ulps, 1e-30);
  }
}

TEST(CpuMap, EveryPrimitive) {
  for (const PrimitiveRow& row : kPrimitives)
    for (Dtype type : kComputeTypes)
      if (type != Dtype::i32 || row.integers) check_primitive(row, type);
  for (const PrimitiveRow& row : kBitPrimitives) check_primitive(row, Dtype::i32);
}

TEST(CpuMap, SpecialValues) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const double values[] = {0,   -0.0, 1,    -1,    infinity, -infinity, nan,   0.5,  -0.5,
                           1.5, 2.5,  -2.5, 100.0, -100,     1e30,      -1e30, 1e-30};
  constexpr std::int64_t kCount = std::size(values);
  for (const PrimitiveRow& row : kPrimitives) {
    for (Dtype type : {Dtype::f32, Dtype::f64}) {
      std::mt19937 random(1);
      PlanCase c = primitive_case(row, type, kCount * kCount, random);
      for (int arg = 0; arg < arity(row.primitive); ++arg)
        for (std::int64_t i = 0; i < kCount * kCount; ++i)
          set_element(c.memory[static_cast<std::size_t>(arg)], type, i, values[arg == 0 ? i % kCount : i / kCount]);
      // Trigonometry of 1e30 is noise in f32; powers near one end of the range lose bits.
      const bool periodic =
          row.primitive == Primitive::sin || row.primitive == Primitive::cos || row.primitive == Primitive::tan;
      check_plan(c, periodic ? 4 : type == Dtype::f64 ? 4 : row.ulps + 4, periodic ? 1 : 1e-37);
    }
  }
}

// Subnormal results may be zero; below them, and beyond the largest number, everything is 0 or infinite.
TEST(CpuMap, ExponentialOverItsWholeRange) {
  std::mt19937 random(1);
  check_plan(primitive_case({Primitive::exp, -200, 88.72}, Dtype::f32, 3001, random), 2, 5.1e-32);
  check_plan(primitive_case({Primitive::exp, 88.73, 200}, Dtype::f32, 3001, random), 0);
  check_plan(primitive_case({Primitive::exp, -88, -87}, Dtype::f32, 3001, random), 4, 5.1e-32);
  check_plan(primitive_case({Primitive::exp, -900, 800}, Dtype::f64, 3001, random), 4, 5.1e-293);
}

TEST(CpuMap, IntegerEdges) {
  const double values[] = {0, 1, -1, 2, 31, 32, -2147483648.0, 2147483647.0};
  constexpr std::int64_t kCount = std::size(values);
  for (Primitive primitive : {Primitive::neg, Primitive::abs, Primitive::add, Primitive::sub, Primitive::mul,
                              Primitive::div, Primitive::mod, Primitive::shift_left, Primitive::shift_right}) {
    std::mt19937 random(1);
    PlanCase c = primitive_case({primitive, 0, 1}, Dtype::i32, kCount * kCount, random);
    for (int arg = 0; arg < arity(primitive); ++arg)
      for (std::int64_t i = 0; i < kCount * kCount; ++i)
        set_element(c.memory[static_cast<std::size_t>(arg)], Dtype::i32, i, values[arg == 0 ? i % kCount : i / kCount]);
    check_plan(c, 0);
  }
}

TEST(CpuMap, Casts) {
  std::mt19937 random(1);
  for (Dtype from : kComputeTypes)
    for (Dtype to : kComputeTypes) {
      PlanCase c;
      const Shape domain{2000};
      Kernel kernel{.label = "cast", .domain = domain};
      kernel.loads.push_back(dense(c.slot(from, domain, random, -3e9, 3e9), domain));
      kernel.stores.push_back(dense(c.slot(to, domain, random), domain));
      for (std::int64_t i = 0; i < 1000; ++i) set_element(c.memory[0], from, i, static_cast<double>(i) / 7 - 70);
      if (is_floating(from)) set_element(c.memory[0], from, 5, std::nan(""));
      Stage stage;
      stage.body = {load(0, from), apply(Primitive::cast, to, {0, -1, -1})};
      stage.stores = {{.value = 1, .access = 0}};
      kernel.stages = {stage};
      c.plan.kernels = {kernel};
      check_plan(c, 1);
    }
}

// Every storage type in, every storage type out: sums in the compute type, saturating casts and stores.
TEST(CpuMap, StorageTypes) {
  std::mt19937 random(2);
  for (int from = 0; from < kDtypeCount; ++from)
    for (int to = 0; to < kDtypeCount; ++to) {
      const Dtype in = static_cast<Dtype>(from), out = static_cast<Dtype>(to), type = compute_dtype(in);
      if (plan_dtype(in) != in || plan_dtype(out) != out) continue;
      for (std::int64_t n : {1, 77, 2048}) {
        PlanCase c;
        const Shape domain{n};
        Kernel kernel{.label = "convert", .domain = domain};
        kernel.loads.push_back(dense(c.slot(in, domain, random, -400, 400), domain));
        kernel.stores.push_back(dense(c.slot(out, domain, random), domain));
        kernel.stores.push_back({.slot = c.slot(out, Shape{2 * n}, random), .offset = 1, .strides = {2}});
        Stage stage;
        stage.body = {load(0, type), apply(Primitive::add, type, {0, 0, -1}),
                      apply(Primitive::cast, compute_dtype(out), {1, -1, -1})};
        stage.stores = {{.value = 2, .access = 0}, {.value = 2, .access = 1}};
        kernel.stages = {stage};
        c.plan.kernels = {kernel};
        SCOPED_TRACE(std::string(to_string(in)) + " to " + std::string(to_string(out)));
        check_plan(c, 1);
      }
    }
}

// A domain of random rank and sizes; each axis of each access broadcast, permuted, reversed or bounded at random.
PlanCase random_map(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<std::int64_t> sizes;
  for (int rank = pick(0, 5); rank > 0; --rank) {
    const int choices[] = {0, 1, 2, 3, 5, 17, 40, 130};
    sizes.push_back(choices[sizes.empty() && pick(0, 9) == 0 ? 0 : pick(1, rank > 3 ? 4 : 7)]);
  }
  while (Shape(sizes).size() > 40000) *std::ranges::max_element(sizes) /= 2;
  const Shape domain(sizes);
  PlanCase c;
  Kernel kernel{.label = "random", .domain = domain};
  const Dtype type = pick(0, 3) ? Dtype::f32 : Dtype::f64;
  const auto permuted = [&](bool broadcasts, Access& access) {
    Axes order = all_axes(domain);
    if (pick(0, 1)) std::shuffle(order.begin(), order.end(), random);
    std::int64_t stride = 1;
    access.strides.assign(sizes.size(), 0);
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      if (broadcasts && pick(0, 3) == 0) continue;
      const bool reversed = broadcasts && pick(0, 5) == 0;
      access.strides[static_cast<std::size_t>(*axis)] = reversed ? -stride : stride;
      if (reversed) access.offset += stride * (domain[*axis] - 1);
      stride *= domain[*axis];
    }
    return Shape{std::max<std::int64_t>(stride, 1)};
  };
  const auto bound = [&](Access& access) {
    if (pick(0, 3) > 0) return;
    access.fill = 0.5;
    for (std::int64_t size : sizes)
      access.inside.push_back({pick(0, 1) ? 0 : size / 3, pick(0, 1) ? size : size - size / 4});
  };
  Stage stage;
  std::vector<int> loaded;
  for (int i = pick(0, 3); i >= 0; --i) {
    Access access;
    const Shape shape = permuted(true, access);
    bound(access);
    access.slot = c.slot(pick(0, 2) ? type : pick(0, 1) ? Dtype::f16 : Dtype::u8, shape, random);
    const Dtype stored = c.plan.slots[static_cast<std::size_t>(access.slot)].dtype;
    stage.body.push_back(load(static_cast<int>(kernel.loads.size()), compute_dtype(stored)));
    kernel.loads.push_back(access);
    stage.body.push_back(apply(Primitive::cast, type, {static_cast<int>(stage.body.size()) - 1, -1, -1}));
    loaded.push_back(static_cast<int>(stage.body.size()) - 1);
  }
  stage.body.push_back(constant(0.25, type));
  int last = static_cast<int>(stage.body.size()) - 1;
  for (const int i : loaded) {
    const Primitive primitives[] = {Primitive::add, Primitive::mul, Primitive::sub, Primitive::max};
    stage.body.push_back(apply(primitives[pick(0, 3)], type, {last, i, -1}));
    last = static_cast<int>(stage.body.size()) - 1;
  }
  for (int store = pick(1, 2); store > 0; --store) {
    Access access;
    const Shape shape = permuted(false, access);
    bound(access);
    access.slot = c.slot(type, shape, random);
    stage.stores.push_back({.value = last - (store == 2 ? 1 : 0), .access = static_cast<int>(kernel.stores.size())});
    kernel.stores.push_back(access);
  }
  kernel.stages = {stage};
  c.plan.kernels = {kernel};
  return c;
}

TEST(CpuMap, RandomAccesses) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    SCOPED_TRACE(seed);
    check_plan(random_map(random), 16);
    if (HasFailure()) return;
  }
}

TEST(CpuMap, LargeEnoughForSeveralParts) {
  std::mt19937 random(3);
  PlanCase c;
  const Shape domain{300, 700};
  Kernel kernel{.label = "bias", .domain = domain};
  kernel.loads = {dense(c.slot(Dtype::f32, domain, random), domain),
                  {.slot = c.slot(Dtype::f32, Shape{700}, random), .strides = {0, 1}},
                  {.slot = c.slot(Dtype::f32, Shape{700, 300}, random), .strides = {1, 300}}};
  kernel.stores = {dense(c.slot(Dtype::f32, domain, random), domain)};
  Stage stage;
  stage.body = {load(0, Dtype::f32), load(1, Dtype::f32), load(2, Dtype::f32),
                apply(Primitive::add, Dtype::f32, {0, 1, -1}), apply(Primitive::mul, Dtype::f32, {3, 2, -1})};
  stage.stores = {{.value = 4, .access = 0}};
  kernel.stages = {stage};
  c.plan.kernels = {kernel};
  check_plan(c, 2);
}

// w and v change in place, as an optimiser does; later stages see what an earlier one carried.
TEST(CpuMap, InPlaceAndScalarsAndCarries) {
  std::mt19937 random(4);
  for (std::int64_t n : {1, 1000, 100000}) {
    PlanCase c;
    const Shape domain{n};
    const int w = c.slot(Dtype::f32, domain, random), v = c.slot(Dtype::f32, domain, random);
    const int g = c.slot(Dtype::f32, domain, random), rate = c.slot(Dtype::f32, {}, random);
    c.plan.scalars = {0.9};
    Kernel kernel{.label = "sgd", .domain = domain};
    kernel.loads = {dense(w, domain), dense(v, domain), dense(g, domain), {.slot = rate, .strides = {0}}};
    kernel.stores = {dense(v, domain), dense(w, domain)};
    kernel.carried = {Dtype::f32};
    Stage first;
    first.body = {load(1, Dtype::f32),
                  load(2, Dtype::f32),
                  {.primitive = Primitive::scalar},
                  apply(Primitive::mul, Dtype::f32, {0, 2, -1}),
                  apply(Primitive::add, Dtype::f32, {3, 1, -1})};
    first.stores = {{.value = 4, .access = 0}};
    first.carries = {{.value = 4, .carried = 0}};
    Stage second;
    second.full = false;
    second.body = {load(0, Dtype::f32),
                   {.primitive = Primitive::carried},
                   load(3, Dtype::f32),
                   apply(Primitive::mul, Dtype::f32, {2, 1, -1}),
                   apply(Primitive::sub, Dtype::f32, {0, 3, -1})};
    second.stores = {{.value = 4, .access = 1}};
    kernel.stages = {first, second};
    c.plan.kernels = {kernel};
    check_plan(c, 2);
  }
}

TEST(CpuMap, CoordinatesAndRandomNumbers) {
  std::mt19937 random(5);
  for (const Shape& domain : {Shape{}, Shape{7}, Shape{3, 5000}, Shape{33, 9, 70}})
    for (Primitive primitive : {Primitive::uniform, Primitive::normal}) {
      PlanCase c;
      Kernel kernel{.label = "draw", .domain = domain};
      kernel.loads = {
          {.slot = c.slot(Dtype::i32, {}, random, 1, 9), .strides = Strides(static_cast<std::size_t>(domain.rank()))}};
      Strides transposed(static_cast<std::size_t>(domain.rank()));
      std::int64_t stride = 1;
      for (std::size_t axis = 0; axis < transposed.size(); ++axis) {
        transposed[axis] = stride;
        stride *= domain.sizes()[axis];
      }
      kernel.stores = {dense(c.slot(Dtype::f32, domain, random), domain),
                       {.slot = c.slot(Dtype::f32, domain, random), .strides = transposed},
                       dense(c.slot(Dtype::i32, domain, random), domain)};
      Stage stage;
      stage.body = {load(0, Dtype::i32),
                    {.primitive = primitive, .args = {0, -1, -1}, .stream = random_stream(3, "test")},
                    constant(7, Dtype::i32)};
      for (int axis = 0; axis < domain.rank(); ++axis) {
        stage.body.push_back({.primitive = Primitive::coordinate, .type = Dtype::i32, .index = axis});
        const int last = static_cast<int>(stage.body.size()) - 1;
        stage.body.push_back(apply(Primitive::mul, Dtype::i32, {last, last - 1, -1}));
        stage.body.push_back(apply(Primitive::add, Dtype::i32, {last + 1, last, -1}));
      }
      stage.stores = {{.value = 1, .access = 0}, {.value = 1, .access = 1}};
      stage.stores.push_back({.value = static_cast<int>(stage.body.size()) - 1, .access = 2});
      kernel.stages = {stage};
      c.plan.kernels = {kernel};
      check_plan(c, 0);
    }
}

TEST(CpuMap, RefusesMalformedKernels) {
  const auto backend = make_cpu_backend(1);
  std::mt19937 random(6);
  const PlanCase good = primitive_case({Primitive::add, 0, 1}, Dtype::f32, 4, random);
  EXPECT_NO_THROW(backend->compile(good.plan));
  const auto refuses = [&](auto&& change) {
    Plan plan = good.plan;
    change(plan.kernels[0]);
    EXPECT_THROW(backend->compile(plan), Error);
  };
  refuses([](Kernel& k) { k.stages[0].body[2].args[1] = 2; });
  refuses([](Kernel& k) { k.stages[0].body[0].type = Dtype::i32; });
  refuses([](Kernel& k) { k.stages[0].body[0].index = 9; });
  refuses([](Kernel& k) { k.stages[0].stores[0].value = 9; });
  refuses([](Kernel& k) { k.loads[0].strides = {1, 1}; });
  refuses([](Kernel& k) { k.stages[0].body[2].primitive = Primitive::bit_and; });
  refuses([](Kernel& k) { k.stages[0].body[1].primitive = Primitive::carried; });
  const auto executable = backend->compile(good.plan);
  EXPECT_THROW(executable->run({}, {}), Error);
  const std::vector<std::shared_ptr<Buffer>> small(3, backend->allocate(4));
  EXPECT_THROW(executable->run(small, {}), Error);
  EXPECT_THROW(backend->allocate(std::int64_t{1} << 60), Error);
}

}  // namespace
}  // namespace nixie::testing
