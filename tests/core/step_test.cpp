// Variables, traces and Steps: who changes when, and what an error leaves behind.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

Array numbers(std::vector<float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return Array::from(values, {size});
}

TEST(Variable, ReadBeforeSetKeepsTheOldValue) {
  Variable v("v", numbers({1, 2}));
  const Tensor old = v;
  v.set(numbers({10, 20}));
  expect_values(old, {1, 2}, 0);
  expect_values(v, {10, 20}, 0);

  Step step(cpu(), [&](const Inputs&) {
    const Tensor before = v;
    v.set(v * 5);
    const Tensor after = v;
    return Outputs{{"before", before * 1}, {"after", after}, {"both", before + after}};
  });
  const Outputs out = step({});
  expect_values(out.at("before"), {10, 20}, 0);
  expect_values(out.at("after"), {50, 100}, 0);
  expect_values(out.at("both"), {60, 120}, 0);
  expect_values(v, {50, 100}, 0);
}

TEST(Variable, OutsideReadersKeepTheirValueWhileAStepRuns) {
  Variable v("v", numbers({1, 2}));
  Step step(cpu(), [&](const Inputs&) {
    v.set(v + 1);
    return Outputs{};
  });
  step({});
  const Tensor old = v;
  step({});
  expect_values(old, {2, 3}, 0);
  expect_values(v, {3, 4}, 0);
}

TEST(Variable, SetOfAnUnevaluatedExpressionOutsideAStepIsAnError) {
  Variable v("v", numbers({1, 2}));
  EXPECT_FAULT(usage, "variable v is set outside a Step to a value that is not computed; do so in a", v.set(v * 2));
  EXPECT_FAULT(usage, "variable v of shape [2] is set to a value of shape [3]", v.set(numbers({1, 2, 3})));
  v.set(evaluate(v * 2, cpu()));
  expect_values(v, {2, 4}, 0);
  v.set(7);
  expect_values(v, {7, 7}, 0);
}

TEST(Variable, ANumberIsRoundedOnlyToTheVariablesType) {
  Variable wide("wide", Array::from(std::vector<double>{1, 2}, {2}));
  wide.set(0.1);
  EXPECT_EQ(wide.array().to_vector<double>(), (std::vector<double>{0.1, 0.1}));
  Step step(cpu(), [&](const Inputs&) {
    wide.set(0.2);
    return Outputs{};
  });
  step({});
  EXPECT_EQ(wide.array().to_vector<double>(), (std::vector<double>{0.2, 0.2}));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // those end the program
TEST(Variable, WantOfMemoryIsToldOnce) {
  const Shape shape{std::int64_t{1} << 44};
  const auto state = std::make_shared<VariableState>(
      VariableState{.name = "huge", .shape = shape, .init = [&] { return Array(Dtype::f32, shape); }});
  Step step(cpu(), [&](const Inputs&) { return Outputs{{"sum", sum(Variable(state))}}; });
  const std::string error = error_of(Fault::memory, [&] { step({}); });
  EXPECT_EQ(error,
            "huge f32 [17592186044416]: no 70368744177664 bytes of host memory for an array f32 [17592186044416]; use "
            "a larger device or a smaller model");
}
#endif

TEST(Variable, OutlivesABackend) {
  Variable v("v", numbers({1, 2}));
  {
    const auto backend = new_test_backend();
    Step step(*backend, [&](const Inputs&) {
      v.set(v + 1);
      return Outputs{};
    });
    step({});
  }
  if (cpu().memory_place().is_shared) {  // the host's memory outlives every backend
    EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{2, 3}));
    expect_values(v * 2, {4, 6}, 0);
  } else {
    EXPECT_FAULT(usage, "read after the backend that held it", v.array());
    EXPECT_FAULT(usage, "read after the backend that held it", evaluate(v * 2, cpu()));
  }
  v.set(numbers({5, 6}));
  expect_values(v * 2, {10, 12}, 0);
}

// Which is no Variable: what the host holds is as it was, whichever backends used it.
TEST(Variable, AnArrayIsReadAfterABackend) {
  const Tensor x = numbers({1, 2});
  for (int round = 0; round < 2; ++round) {
    const auto backend = make_backend(cpu().name());
    expect_values(evaluate(x + 1, *backend), {2, 3}, 0);
  }
  expect_values(x, {1, 2}, 0);
  EXPECT_EQ(x.array().to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Variable, SwappedAndCrossedSetsReadOldValues) {
  Variable a("a", numbers({1, 2})), b("b", numbers({3, 4}));
  Step swap(cpu(), [&](const Inputs&) {
    const Tensor x = a, y = b;
    a.set(y);
    b.set(x);
    return Outputs{};
  });
  swap({});
  expect_values(a, {3, 4}, 0);
  expect_values(b, {1, 2}, 0);
  Step cross(cpu(), [&](const Inputs&) {  // each new value needs the other's old one, flipped
    const Tensor x = a, y = b;
    a.set(flip(y, {0}) + x);
    b.set(flip(x, {0}) * y);
    return Outputs{};
  });
  cross({});
  expect_values(a, {5, 5}, 0);
  expect_values(b, {4, 6}, 0);
  Step reverse(cpu(), [&](const Inputs&) {
    a.set(flip(a, {0}) * 2 + sum(a));
    return Outputs{{"a", a}, {"again", a + 0}};
  });
  a.set(numbers({1, 2}));
  const Outputs out = reverse({});
  expect_values(a, {7, 5}, 0);
  expect_values(out.at("a"), {7, 5}, 0);
  expect_values(out.at("again"), {7, 5}, 0);
}

TEST(Step, InputsMayBeExpressionsAndNumbers) {
  int traces = 0;
  Step step(cpu(), [&](const Inputs& in) {
    ++traces;
    return Outputs{{"y", in["x"] * 2 + in["by"]}};
  });
  const Tensor scale = numbers({3, 4});
  expect_values(step({{"x", Tensor(numbers({1, 2})) * scale + 1.5}, {"by", 10}}).at("y"), {19, 29}, 0);
  expect_values(step({{"x", Tensor(numbers({5, 6})) * scale + 1.5}, {"by", 20}}).at("y"), {53, 71}, 0);
  EXPECT_EQ(traces, 1);
  expect_values(step({{"x", Tensor(numbers({5, 6})) * scale + 2.5}, {"by", 20}}).at("y"), {55, 73}, 0);
  EXPECT_EQ(traces, 2);  // another number is another expression
  expect_values(step({{"x", numbers({1, 2})}, {"by", 0}}).at("y"), {2, 4}, 0);
  Trace trace;
  const Variable v("v", numbers({1, 2}));
  EXPECT_FAULT(usage, "the step's input \"x\" depends on \"v\"", step({{"x", v.value() * 1.5}, {"by", 1}}));
}

TEST(Step, AFilterGradientGoesToAnotherStepAsItLies) {
  CountingBackend backend({.channels_last = true});
  const Array images = testing::random_array({2, 3, 5, 5}, -1, 1, 1).to(Dtype::f32);
  const Variable filter("filter", testing::random_array({4, 3, 3, 3}, -1, 1, 2).to(Dtype::f32));
  Step backward(backend, [&](const Inputs& in) {
    return Outputs{{"grad", gradients(sum(square(conv(in["x"], filter))), std::vector<Variable>{filter})[0].value}};
  });
  Step apply(backend, [&](const Inputs& in) { return Outputs{{"y", in["grad"] * 2}}; });
  const Tensor gradient = backward({{"x", images}}).at("grad");
  const Tensor doubled = apply({{"grad", gradient}}).at("y");
  EXPECT_EQ(backend.downloads, 0);
  std::vector<double> expected = gradient.to_vector<double>();
  for (double& e : expected) e *= 2;
  EXPECT_EQ(doubled.to_vector<double>(), expected);
}

TEST(Step, UnchangedInputsAreUploadedOnce) {
  CountingBackend backend;
  Step step(backend, [](const Inputs& in) { return Outputs{{"y", in["x"] + 1}}; });
  const Tensor a = numbers({1, 2}), b = numbers({3, 4});
  for (const Tensor& x : {a, a, b, b, a}) {
    const std::vector<float> expected = (x.id() == a.id()) ? std::vector<float>{2, 3} : std::vector<float>{4, 5};
    EXPECT_EQ(step({{"x", x}}).at("y").to_vector<float>(), expected);
  }
  EXPECT_EQ(backend.uploads, 3);
}

TEST(Step, ATraceThatThrowsChangesNothing) {
  Variable v("v", numbers({1, 2}));
  Step step(cpu(), [&](const Inputs& in) {
    v.set(v + 1);
    return Outputs{{"y", in["x"] + in["missing"]}};
  });
  EXPECT_FAULT(usage, "the step has no input \"missing\", only: x", step({{"x", numbers({1})}}));
  EXPECT_FAULT(usage, "\", nor any other", step({}));
  expect_values(v, {1, 2}, 0);
  {
    Trace trace;
    v.set(v * 100);
    expect_values(Tensor(numbers({1})), {1}, 0);
  }
  expect_values(v, {1, 2}, 0);
}

TEST(Step, RetracesForOtherShapesAndReplaysForTheSame) {
  int traces = 0;
  Step step(cpu(), [&](const Inputs& in) {
    ++traces;
    return Outputs{{"sum", sum(in["x"] * 2)}};
  });
  EXPECT_EQ(step({{"x", numbers({1, 2})}}).at("sum").item(), 6);
  EXPECT_EQ(step({{"x", numbers({3, 4})}}).at("sum").item(), 14);
  EXPECT_EQ(step({{"x", numbers({1, 2, 3})}}).at("sum").item(), 12);
  EXPECT_EQ(step({{"x", numbers({1, 2, 3}).to(Dtype::f64)}}).at("sum").item(), 12);
  EXPECT_EQ(traces, 3);
}

TEST(Step, OutputsSomebodyHoldsAreNotOverwritten) {
  Step step(cpu(), [](const Inputs& in) {
    return Outputs{{"y", in["x"] + 1}, {"same", in["x"]}, {"flat", reshape(in["x"] * 2, {1, 2})}};
  });
  const Outputs first = step({{"x", numbers({1, 2})}});
  const Outputs second = step({{"x", numbers({5, 6})}});
  expect_values(first.at("y"), {2, 3}, 0);
  expect_values(first.at("same"), {1, 2}, 0);
  expect_values(second.at("y"), {6, 7}, 0);
  expect_values(second.at("flat"), {10, 12}, 0);
  // an output can be the next step's input without leaving the backend
  expect_values(step({{"x", second.at("y")}}).at("y"), {7, 8}, 0);
}

TEST(Step, CountersAndRandomNumbersAdvance) {
  Parameters p;
  Variable counter = p.state("step", {}, {}, Dtype::i32);
  Step step(cpu(), [&](const Inputs&) {
    const Tensor noise = uniform({4}, random_stream(1, "noise"), counter);
    counter.set(counter + 1);
    return Outputs{{"noise", noise}};
  });
  const auto first = step({}).at("noise").to_vector<float>(), second = step({}).at("noise").to_vector<float>();
  EXPECT_NE(first, second);
  EXPECT_EQ(counter.array().item(), 2);
  expect_values(uniform({4}, random_stream(1, "noise"), 1), std::vector<double>(second.begin(), second.end()), 0);
}

TEST(Parameters, NamesScopesAndSeeds) {
  Parameters p(3);
  Parameters inner = p.scope("features").scope("0");
  const Variable w = inner.make("weight", {4, 3}, Init::kaiming());
  const Variable mean = inner.state("running_mean", {4});
  EXPECT_EQ(w.name(), "features.0.weight");
  EXPECT_EQ(p.all().size(), 2u);
  EXPECT_EQ(p.trainable().size(), 1u);
  EXPECT_EQ(p.count(), 12);
  EXPECT_EQ(p.find("features.0.weight"), w);
  EXPECT_FALSE(p.find("weight"));
  EXPECT_FAULT(usage, "parameter name features.0.weight is taken", inner.make("weight", {1}));
  const auto values = w.array().to_vector<float>();
  EXPECT_EQ(values, Parameters(3).make("features.0.weight", {4, 3}, Init::kaiming()).array().to_vector<float>());
  EXPECT_NE(values, Parameters(4).make("features.0.weight", {4, 3}, Init::kaiming()).array().to_vector<float>());
}

// Large arrays are drawn by many threads.
TEST(Init, ANumberDependsOnItsPlaceAlone) {
  const std::int64_t few = 70'001, many = 600'001;
  for (const Init& init : {Init::normal(0.5f, 2), Init::uniform(-1, 3)}) {
    const Array short_one = init.make({few}, 7), long_one = init.make({many}, 7);
    EXPECT_TRUE(std::ranges::equal(short_one.data<float>(), long_one.data<float>().first(few)));
    EXPECT_NE(long_one.data<float>()[many - 1], 0);
  }
}

TEST(Init, MomentsAndOrthonormality) {
  struct Row {
    Init init;
    double mean, deviation;
  };
  const Row rows[] = {{Init::constant(3), 3, 0},
                      {Init::uniform(-1, 3), 1, 4 / std::sqrt(12.0)},
                      {Init::normal(0.5f, 2), 2, 0.5},
                      {Init::glorot(), 0, std::sqrt(2.0 / (200 + 300 * 9))},
                      {Init::kaiming(), 0, std::sqrt(2.0 / (200 * 9))}};
  for (const Row& row : rows) {
    const Shape shape = row.init.kind == Init::Kind::glorot ? Shape{300, 200, 3, 3} : Shape{100, 200, 3, 3};
    const Array x = row.init.make(shape, random_stream(1, "x"));
    double mean = 0, square = 0;
    for (float v : x.data<float>()) mean += v / static_cast<double>(x.size());
    for (float v : x.data<float>()) square += (v - mean) * (v - mean) / static_cast<double>(x.size());
    const double expected = row.init.kind == Init::Kind::glorot ? std::sqrt(2.0 / ((200 + 300) * 9)) : row.deviation;
    EXPECT_NEAR(mean, row.mean, 0.01 * std::max(1.0, expected)) << field_text(row.init);
    EXPECT_NEAR(std::sqrt(square), expected, 0.01 * std::max(0.1, expected)) << field_text(row.init);
  }
  for (const Shape& shape : {Shape{5, 12}, Shape{12, 5}, Shape{4, 3, 2, 2}}) {
    const Tensor w = reshape(Tensor(Init::orthonormal(2).make(shape, 9)), {shape[0], -1});
    const bool wide = w.shape()[0] <= w.shape()[1];
    const Tensor gram = wide ? matmul(w, w, {.trans_b = true}) : matmul(w, w, {.trans_a = true});
    const auto v = testing::values_of(gram);
    const auto n = static_cast<std::size_t>(gram.shape()[0]);
    for (std::size_t i = 0; i < n * n; ++i) EXPECT_NEAR(v[i], i % (n + 1) == 0 ? 4 : 0, 1e-5);
  }
}

TEST(Autograd, UnreachedIsZeroAndBadLossesAreNamed) {
  Variable v("v", numbers({1, 2})), u("u", numbers({3}));
  const auto g = gradients(sum(square(v)), std::vector<Variable>{v, u});
  expect_values(g[0].value, {2, 4}, 0);
  expect_values(g[1].value, {0}, 0);
  EXPECT_FAULT(usage, "gradients: the loss has shape [2], expected one element",
               gradients(square(v), std::vector<Variable>{v}));
  EXPECT_FAULT(usage, "the loss is i32, expected a floating type",
               gradients(sum(cast(v, Dtype::i32)), std::vector<Variable>{v}));
  expect_values(gradients(sum(stop_gradient(v) * v), std::vector<Variable>{v})[0].value, {1, 2}, 0);
}

TEST(Errors, ScopesNameThePlace) {
  const Scope outer("features");
  const Scope inner("3", "conv2d");
  EXPECT_FAULT(usage, "features.3 (conv2d): input is [128, 9216], expected [N, C, H, W]",
               check(false, "input is ", Shape{128, 9216}, ", expected [N, C, H, W]"));
}

}  // namespace
}  // namespace nixie
