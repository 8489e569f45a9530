// Random sequences of sets: Variables that read themselves and each other in one Step. Each assignment is computed
// again by itself, on the CPU, and every Variable, old value and sum must be equal. Values are small integers.
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/variable.h"
#include "nixie/core/step.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

constexpr int kVariables = 3, kKinds = 18;
constexpr double kBound = 3;

/// `to` becomes a function of `a` and `b`; `number` is taken modulo what is possible.
struct Assignment {
  int kind = 0, a = 0, b = 0, to = 0, number = 0;
};
using Program = std::vector<Assignment>;

/// The assignment's value for matrices [n, n].
Tensor value_of(const Assignment& each, const Tensor& a, const Tensor& b) {
  const std::int64_t n = a.shape()[0], k = each.number % n;
  const auto bounded = [](const Tensor& x) { return clip(x, -kBound, kBound); };
  switch (each.kind) {
    case 0:
      return b;
    case 1:
      return transpose(a);
    case 2:
      return flip(a, {each.number % 2});
    case 3:
      return roll(a, k, 0);
    case 4:
      return roll(a, -k, 1);
    case 5:
      return bounded(matmul(a, b));
    case 6:
      return update(a, {Index(k)}, slice(b, {Index(n - 1 - k)}));
    case 7:
      return update(a, {Index::range(0, k + 1)}, slice(a, {Index::range(n - 1 - k)}));
    case 8:
      return bounded(a + transpose(b));
    case 9:
      return bounded(cumsum(a, 0));
    case 10:
      return sort(a, 1);
    case 11:
      return take(a, argsort(slice(b, {Index::all(), Index(k)})), 0);
    case 12:
      return concat({slice(a, {Index::range(k)}), slice(b, {Index::range(0, k)})}, 0);
    case 13:
      return bounded(a - max(b, {1}));
    case 14:
      return bounded(sum(a, {0}) + a);
    case 15:
      return where(a < transpose(a), a, b);
    case 16:
      return bounded(scatter_add(a.shape(), cast(slice(b, {Index::all(), Index(k)}) + kBound, Dtype::i32) % n, a));
    default:
      return bounded(2 * a + 1);
  }
}

std::string text_of(const Program& program) {
  std::string text;
  for (const Assignment& each : program)
    text += fmt::format("v{} = kind {} of v{}, v{} ({}); ", each.to, each.kind, each.a, each.b, each.number);
  return text;
}

void run_program(std::uint32_t seed) {
  static const std::shared_ptr<Backend> one_by_one = make_cpu_backend(1);
  Backend& cpu = *one_by_one;
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint32_t>(n)); };
  const std::int64_t n = below(4) == 0 ? 16 : 1 + below(9);
  const Dtype dtype = below(3) == 0 ? Dtype::f64 : Dtype::f32;
  std::vector<Variable> variables;
  std::vector<Array> expected;
  for (int i = 0; i < kVariables; ++i) {
    std::vector<double> values(static_cast<std::size_t>(n * n));
    for (double& value : values) value = below(7) - kBound;
    expected.push_back(Array::from(values, {n, n}).to(dtype));
    variables.emplace_back("v" + std::to_string(i), expected.back());
  }
  Program program(static_cast<std::size_t>(1 + below(8)));
  for (Assignment& each : program)
    each = {below(kKinds), below(kVariables), below(kVariables), below(kVariables), below(9)};
  const auto at = [](auto& all, int i) -> auto& { return all[static_cast<std::size_t>(i)]; };
  Step step(test_backend(), [&](const Inputs&) {
    const Tensor old = at(variables, program[0].to);
    for (const Assignment& each : program)
      at(variables, each.to).set(value_of(each, at(variables, each.a), at(variables, each.b)));
    return Outputs{{"old", old + 0}, {"total", sum(old)}, {"sum", variables[0] + variables[1]}};
  });
  const auto values = [](const Tensor& x) { return x.to_vector<double>(); };
  for (int repetition = 0; repetition < 2; ++repetition) {
    const Array old = at(expected, program[0].to);
    for (const Assignment& each : program)
      at(expected, each.to) = evaluate(value_of(each, at(expected, each.a), at(expected, each.b)), cpu).array();
    const Outputs outputs = step({});
    const std::string where = fmt::format("seed {}, [{}, {}] {}: {}", seed, n, n, dtype, text_of(program));
    EXPECT_EQ(values(outputs.at("old")), values(old)) << where;
    EXPECT_EQ(values(outputs.at("total")), values(evaluate(sum(Tensor(old)), cpu))) << where;
    EXPECT_EQ(values(outputs.at("sum")), values(evaluate(Tensor(expected[0]) + expected[1], cpu))) << where;
    for (int i = 0; i < kVariables; ++i)
      ASSERT_EQ(values(at(variables, i)), values(at(expected, i))) << "v" << i << ", " << where;
  }
}

void run_programs(std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t seed = first; seed < first + count && !testing::Test::HasFatalFailure(); ++seed) run_program(seed);
}

// Each program is a plan of its own, which takes a GPU seconds to compile.
TEST(RandomSets, EqualAssignmentsOneByOne) { run_programs(1, test_backend().name() == "cpu" ? 200 : 20); }
TEST(RandomSets, ManyEqualAssignmentsOneByOneLong) { run_programs(1000, 10'000); }

// One kernel reads the old value, reduces it and writes the new one.
TEST(RandomSets, TheOldValueIsReducedBeforeItIsOverwritten) {
  for (const std::int64_t size : {4, 16, 64, 1000, 1024, 100'000}) {
    Variable v("v", evaluate(ones({size}), test_backend()).array());
    Step step(test_backend(), [&](const Inputs&) {
      const Outputs before{{"sum", sum(v)}, {"max", max(v)}};
      v.set(v * 2);
      return before;
    });
    const Outputs before = step({});
    EXPECT_EQ(before.at("sum").item(), static_cast<double>(size));
    EXPECT_EQ(before.at("max").item(), 1) << size;
    EXPECT_EQ(v.array().to_vector<float>(), std::vector<float>(static_cast<std::size_t>(size), 2.f));
  }
}

// A concatenation is written by a kernel for each part.
TEST(RandomSets, AVariableMayBecomePartsOfItself) {
  Variable queue("queue", Array::from(std::vector<float>{1, 2, 3, 4, 5}, {5}));
  Step push(test_backend(), [&](const Inputs& in) {
    queue.set(concat({in["new"], slice(queue, {Index::range(0, 4)})}, 0));
    return Outputs{};
  });
  for (const float number : {6.f, 7.f}) push({{"new", Array::from(std::vector<float>{number}, {1})}});
  EXPECT_EQ(queue.array().to_vector<float>(), (std::vector<float>{7, 6, 1, 2, 3}));
}

// The product needs all of the old value, so the new one is in a slot of its own, which the second product reads.
TEST(RandomSets, TheNewValueIsReadAfterItIsSet) {
  const std::int64_t n = 8;
  const Tensor turn = roll(cast(coordinate({n, n}, 0) == coordinate({n, n}, 1), Dtype::f32), 1, 1);  // rolls columns
  const Array before = evaluate(reshape(cast(arange(n * n), Dtype::f32), {n, n}), test_backend()).array();
  Variable v("v", before);
  Step step(test_backend(), [&](const Inputs& in) {
    v.set(matmul(v, in["turn"]));
    return Outputs{{"twice", matmul(v, in["turn"])}};
  });
  const Outputs after = step({{"turn", evaluate(turn, test_backend())}});
  const auto rolled = [&](int by) { return evaluate(roll(before, by, 1), test_backend()).to_vector<float>(); };
  EXPECT_EQ(after.at("twice").to_vector<float>(), rolled(2));
  EXPECT_EQ(v.array().to_vector<float>(), rolled(1));
}

}  // namespace
}  // namespace nixie
