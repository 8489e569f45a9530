// Wrong use: every row is something a program may do by mistake, and the one line that says so.
#include <pthread.h>

#include "nixie/core/graph/exchange.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

void take_foreign(std::int32_t rank, std::int64_t* shape, void* data) {
  dlpack::Managed array = {.version = {1, 0},
                           .context = nullptr,
                           .release = nullptr,
                           .flags = 0,
                           .array = {data, {dlpack::kCpu, 0}, rank, {dlpack::kFloat, 32, 1}, shape, nullptr, 0}};
  from_dlpack(&array, cpu());
}

struct Row {
  const char* what;
  std::function<void()> action;
  const char* line;
};

// A row of one statement, which its own text names.
#define WRONG(line, ...)                    \
  {                                         \
#__VA_ARGS__, [] { __VA_ARGS__; }, line \
  }

const std::vector<Row>& rows() {
  static float memory[4] = {};
  static std::int64_t sizes[] = {2, 2}, negative[] = {2, -2}, huge[] = {kHuge, kHuge};
  static const Tensor vector = Array(Dtype::f32, {3}), matrix = Array(Dtype::f32, {2, 3}),
                      images = Array(Dtype::f32, {1, 3, 8, 8}), filter = Array(Dtype::f32, {4, 3, 3, 3}),
                      two = Array::from(std::vector<std::int32_t>{0, 2}, {2}),
                      five = Array::from(std::vector<std::int32_t>{0, 5}, {2});
  static const std::vector<Row> table{
      // sizes that no array has
      WRONG("shape [4611686018427387904] has more than 2^48 elements", Shape{kHuge}),
      WRONG("has more than 2^48 elements", Shape({kHuge, kHuge})),
      WRONG("has more than 2^48 elements", Shape({0, kHuge, kHuge})),
      WRONG("dtype 77 is unknown, expected one of f64, f32, f16, ", Array(Dtype{77}, {3})),
      WRONG("dtype 99 is unknown, expected one of f64", wrap(memory, {4}, Dtype{99}, cpu())),
      WRONG("dtype 15 is unknown, expected one of f64", zeros({3}, Dtype{15})),
      WRONG("dtype 255 is unknown, expected one of f64", cast(vector, Dtype{255})),
      WRONG("has more than 2^48 elements", Array(Dtype::f64, Shape{kHuge})),
      WRONG("has more than 2^48 elements", broadcast_to(vector, Shape{kHuge, 3})),
      WRONG("has more than 2^48 elements", zeros({1 << 30, 1}) * zeros({1, 1 << 30})),
      WRONG("has more than 2^48 elements", full({1 << 24, 1 << 24, 2}, 1.0)),
      WRONG("has more than 2^48 elements", tile(vector, {kHuge})),
      WRONG("pad: 4611686018427387904 and 4611686018427387904 elements", pad(vector, {kHuge}, {kHuge})),
      WRONG("is longer than i32 counts", arange(std::int64_t{1} << 40)),
      WRONG("shape [-1] has a negative size", arange(-1)),
      WRONG("reshape: [3] does not fill [2, -1]", reshape(vector, {2, -1})),
      WRONG("reshape: [-1, -1] leaves two sizes open", reshape(matrix, {-1, -1})),
      WRONG("2^48 elements", deconv(images, Array(Dtype::f32, {3, 1, 3, 3}), {.stride = {2147483647}})),
      WRONG("has more than 2^48 elements", conv(images, filter, {.pad = {2147483647}})),
      WRONG("a window of 3 does not fit", conv(images, filter, {.dilation = {2147483647}})),
      WRONG("slice: the step is", Index::range(0, 1, std::numeric_limits<std::int64_t>::min())),
      // indices out of range
      WRONG("take: index 5 is out of range for size 3", take(vector, five)),
      WRONG("take: index -4 is out of range for size 3", take(vector, -4)),
      WRONG("index 5 is out of range", take_along_axis(matrix, Array::from(std::vector<std::int32_t>{0, 5}, {1, 2}), 1)),
      WRONG("indices are [2] for [2, 3], expected the same", take_along_axis(matrix, two, 1)),
      WRONG("do not broadcast", take_along_axis(matrix, Array(Dtype::i32, {3, 1}), 1)),
      WRONG("scatter_add: index 5 is out of range", scatter_add({3}, five, Array(Dtype::f32, {2}))),
      WRONG("scatter: index 5 is out of range for size 3", scatter(vector, five, 1.0)),
      WRONG("one_hot: index 5 is out of range for size 3", one_hot(five, 3)),
      WRONG("slice: position 3 is out of range for size 3", slice(vector, {Index(3)})),
      WRONG("axis -3 is out of range for shape [2, 3]", sum(matrix, {-3})),
      WRONG("an axis is named twice", sum(matrix, {1, -1})),
      WRONG("axis 3 is out of range for shape [2, 3, 1]", expand_dims(matrix, {3})),
      WRONG("topk: k is 4 for axis 0 of [3]", topk(vector, 4)),
      WRONG("repeat: -1 repeats, expected a number from 0 up", repeat(vector, -1)),
      WRONG("moveaxis: 2 axes are moved to 1 places", moveaxis(matrix, {0, 1}, {0})),
      WRONG("an axis is named twice", moveaxis(matrix, {0, 1}, {0, 0})),
      WRONG("split: axis 0 of [3] has no 2 pieces of one size", split(vector, 2)),
      WRONG("split: position 1 of axis 0 of [3], expected ascending ones", split(vector, {2, 1})),
      WRONG("diff: n is -1", diff(vector, -1)),
      WRONG("squeeze: axis 0 of [3] has size 3, expected 1", squeeze(vector, {0})),
      // shapes and types
      WRONG("shapes [3] and [4] do not broadcast together", vector + Array(Dtype::f32, {4})),
      WRONG("inner sizes 3 and 2 differ", matmul(matrix, matrix)),
      WRONG("einsum: \"ij,jk\" names 2 operands, there are 1", einsum("ij,jk", {matrix})),
      WRONG("einsum: \"ijk\" names an operand of shape [2, 3]", einsum("ijk->k", {matrix})),
      WRONG("einsum: axis i has sizes 2 and 3", einsum("ii", {matrix})),
      WRONG("has an axis 'k' that no operand has, or twice", einsum("ij->k", {matrix})),
      WRONG("einsum: \"..\" has a '.', expected letters, and `...` once for an operand at most", einsum("..", {Array(Dtype::f32, {1, 1, 1})})),
      WRONG("once for an operand at most", einsum("......", {matrix})),
      WRONG("shapes [2] and [3] do not broadcast", einsum("...i,...i", {matrix, Array(Dtype::f32, {3, 3})})),
      WRONG("einsum: \"...ijk\" names an operand of shape [2, 3]", einsum("...ijk", {matrix})),
      WRONG("leaves the axes of `...` out of the result; put `...` there, and sum them afterwards", einsum("...i->i", {matrix})),
      WRONG("tril: the array is [3], expected at least two axes", tril(vector)),
      WRONG("linspace: 3 numbers of i32, expected f64, f32, f16 or bf16", linspace(0, 1, 3, Dtype::i32)),
      WRONG("update: a mask of [2, 3] for [3]", update(vector, matrix > 0, 1.0)),
      WRONG("concat: no inputs", concat({}, 0)),
      WRONG("stack: axis -2 of arrays [], expected", stack({Tensor(1), Tensor(2)}, -2)),
      WRONG("stack: axis 2 of arrays [3], expected -2 to 1", stack({vector, vector}, 2)),
      WRONG("linspace: -3 numbers, expected 0 or more", linspace(0, 1, -3)),
      WRONG("conv: the filter [4, 3, 0, 3] has an empty window", conv(images, Array(Dtype::f32, {4, 3, 0, 3}))),
      WRONG("deconv: the filter [3, 1, 0, 3] has an empty window", deconv(images, Array(Dtype::f32, {3, 1, 0, 3}))),
      WRONG("the step has no body", Step(cpu(), Step::Body())({})),
      {"a step that was moved",
       [] {
         Step step(cpu(), [](const Inputs&) { return Outputs{}; });
         const Step other = std::move(step);
         step({});
       },
       "the step has no body"},
      {"a step in itself",
       [] {
         Step* self = nullptr;
         Step step(cpu(), [&](const Inputs&) { return (*self)({}); });
         self = &step;
         step({});
       },
       "the body of the step runs the step itself"},
      WRONG("a Variable is made of no state", Variable(std::shared_ptr<VariableState>())),
      WRONG("variable \"v\" has no value; its state has neither a storage nor an init", Variable(std::make_shared<VariableState>(VariableState{.name = "v"})).array()),
      {"a condition of many numbers",
       [] {
         Step(cpu(), [](const Inputs&) {
           Trace::rollback_unless(vector > 0);
           return Outputs{};
         })({});
       },
       "rollback_unless: the condition has shape [3], expected one number"},
      WRONG("parameter name \"a b\", expected printable ASCII without / or spaces", Parameters().make("a b", {1})),
      WRONG(".w\", expected printable ASCII without / or spaces", Parameters().scope("\xc3\xbc").make("w", {1})),
      WRONG("the loss has shape [3]", gradients(vector, std::vector<Tensor>{vector})),
      WRONG("item() of an array of shape [2], expected one element", Array(Dtype::f32, {2}).item()),
      WRONG("array holds f32, read as f64", Array(Dtype::f32, {2}).data<double>()),
      // values that are not there
      WRONG("an empty Tensor is used as a value", Tensor() + 1),
      WRONG("a value that is not computed are read", (vector + 1).array()),
      WRONG("evaluate: the value depends on \"x\", which only has a value inside its Step", evaluate(Tensor::make(Input{.name = "x"}, {}, {}, Dtype::f32), cpu())),
      // memory of others
      WRONG("wrap: the address is null, expected 2 elements of", wrap(nullptr, {2}, Dtype::f32, cpu())),
      WRONG("dlpack: the array is a null pointer", from_dlpack(nullptr, cpu())),
      WRONG("dlpack: an array of rank -1, expected 0 to 64 axes", take_foreign(-1, sizes, memory)),
      WRONG("dlpack: an array of rank 1000000000, expected 0 to 64 axes", take_foreign(1000000000, sizes, memory)),
      WRONG("dlpack: an array of rank 2 without a shape", take_foreign(2, nullptr, memory)),
      WRONG("dlpack: the address of an array of shape [2, 2] is null", take_foreign(2, sizes, nullptr)),
      WRONG("shape [2, -2] has a negative size", take_foreign(2, negative, memory)),
      WRONG("has more than 2^48 elements", take_foreign(2, huge, memory)),
  };
  return table;
}

TEST(Misuse, IsOneLine) {
  if (cpu().name() != "cpu") GTEST_SKIP() << "the rows do not depend on the backend";
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.what);
    EXPECT_FAULT(usage, row.line, row.action());
  }
}

TEST(Misuse, WhatWasMovedFromKeepsItsElements) {
  Array a = Array::from(std::vector<float>{1, 2}, {2});
  const Array b = std::move(a);
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
  Variable v("v", b);
  const Variable w = std::move(v);
  EXPECT_EQ(v.array().to_vector<float>(), w.array().to_vector<float>());
  Parameters p;
  const Parameters q = std::move(p);
  p.make("w", {2});
  EXPECT_EQ(q.all().size(), 1u);
  Elementwise twice{"moved_twice", [](auto x) { return 2 * x; },
                    [](const Tensor& g, const Tensor&, const Tensor&) { return Gradients{2 * g}; }};
  const Elementwise same = std::move(twice);
  EXPECT_EQ(evaluate(twice(b), cpu()).to_vector<float>(), evaluate(same(b), cpu()).to_vector<float>());
  EXPECT_EQ(Array().to_vector<float>().size(), 0u);
  EXPECT_EQ(Array().clone().size(), 0);
}

// A chain that recursion would not survive: compiled in several kernels, differentiated, freed.
void run_chain(int length) {
  const Array start = Array::from(std::vector<float>{1, 2}, {2});
  {
    Tensor x = start;
    for (int i = 0; i < length; ++i) x = x + 1.0;
    EXPECT_EQ(evaluate(x, cpu()).to_vector<float>(),
              (std::vector<float>{static_cast<float>(length + 1), static_cast<float>(length + 2)}));
    const Tensor total = sum(x);
    EXPECT_EQ(evaluate(total, cpu()).item(), 2.0 * length + 3);
  }
  {
    Tensor x = start;  // never evaluated
    for (int i = 0; i < 10 * length; ++i) x = -x;
  }
  Tensor y = start;
  for (int i = 0; i < length / 10; ++i) y = y * 1.0 + slice(pad(y, {1}, {0}), {Index::range(0, 2)}) * 0.0;
  const Tensor leaf = start;
  Tensor z = leaf;
  for (int i = 0; i < length / 10; ++i) z = z * 0.5 + z * 0.5;
  EXPECT_EQ(evaluate(gradients(sum(z), std::vector<Tensor>{leaf})[0], cpu()).to_vector<float>(),
            (std::vector<float>{1, 1}));
}
TEST(Misuse, DeepChainsAreNoRecursion) { run_chain(20000); }

/// In a thread whose stack is small, so that recursion shows in short chains.
void run_with_small_stack(void (*work)()) {
  pthread_attr_t small;
  ASSERT_EQ(::pthread_attr_init(&small), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&small, 256 << 10), 0);
  pthread_t thread{};
  const auto start = [](void* run) -> void* { return reinterpret_cast<void (*)()>(run)(), nullptr; };
  ASSERT_EQ(::pthread_create(&thread, &small, start, reinterpret_cast<void*>(work)), 0);
  ASSERT_EQ(::pthread_join(thread, nullptr), 0);
  ::pthread_attr_destroy(&small);
}

// Passes look through some ops to those below them, in values, gradients and what is printed of the plan.
void run_chains_of_any_op() {
  using Link = Tensor (*)(const Tensor& y, const Tensor& x);
  const std::pair<const char*, Link> kLinks[] = {
      {"mul", [](const Tensor& y, const Tensor& x) { return y * x; }},
      {"square", [](const Tensor& y, const Tensor&) { return y * y; }},
      {"neg", [](const Tensor& y, const Tensor&) { return -y; }},
      {"div", [](const Tensor& y, const Tensor& x) { return y / x; }},
      {"maximum", [](const Tensor& y, const Tensor& x) { return maximum(y, x); }},
      {"where", [](const Tensor& y, const Tensor& x) { return where(x > 0.0, y, x); }},
      {"sigmoid", [](const Tensor& y, const Tensor&) { return sigmoid(y); }},
      {"cast", [](const Tensor& y, const Tensor&) { return cast(cast(y, Dtype::f16), Dtype::f32); }},
      {"transpose", [](const Tensor& y, const Tensor&) { return transpose(y); }},
      {"matmul", [](const Tensor& y, const Tensor& x) { return matmul(y, x); }},
  };
  for (const auto& [name, link] : kLinks) {
    SCOPED_TRACE(name);
    const Tensor x = Array::from(std::vector<float>{1, 0, 0, 1}, {2, 2});
    Tensor y = x;
    for (int i = 0; i < 3000; ++i) y = link(y, x);
    const Tensor total = sum(sum(y, {0}) * sum(y, {1})), gradient = gradients(sum(y), std::vector<Tensor>{x})[0];
    EXPECT_EQ(evaluate(total, cpu()).to_vector<float>().size(), 1u);
    EXPECT_EQ(evaluate(gradient, cpu()).to_vector<float>().size(), 4u);
    Step step(cpu(), [&](const Inputs&) { return Outputs{{"gradient", gradient}, {"total", total}}; });
    EXPECT_NE(to_string(step.plan({})).size(), 0u);
  }
}
TEST(Misuse, DeepChainsOfAnyOpAreNoRecursion) { run_with_small_stack(run_chains_of_any_op); }

TEST(Misuse, LongDeepChainsOfAMillion) { run_chain(1000000); }

}  // namespace
}  // namespace nixie
