// Gradients of a loss that was computed before a Variable was set: with respect to the value that it was computed from.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

double value_of(const Variable& v) { return v.array().item(); }

// Descends by a tenth of the slope.
void descend(const Tensor& loss, const Variable& v) {
  for (const Gradient& each : gradients(loss, std::vector<Variable>{v})) each.parameter.set(v - 0.1 * each.value);
}

TEST(FormerValues, InAStep) {
  const struct {
    const char* name;
    void (*body)(const Variable& v, const Variable& other);
    double expected;  // of v, from 3
  } kCases[] = {
      {"two losses built first",
       [](const Variable& v, const Variable&) {
         const Tensor first = square(v), second = 5 * v;
         descend(first, v);
         descend(second, v);
       },
       3 - 0.6 - 0.5},
      {"three of them",
       [](const Variable& v, const Variable&) {
         const Tensor first = square(v), second = 5 * v, third = square(v);
         for (const Tensor& loss : {first, second, third}) descend(loss, v);
       },
       3 - 0.6 - 0.5 - 0.6},
      {"clipped before the step",
       [](const Variable& v, const Variable&) {
         const Tensor loss = square(v);
         v.set(clip(v, -1, 1));
         descend(loss, v);
       },
       1 - 0.6},
      {"a loss of the new value",
       [](const Variable& v, const Variable&) {
         descend(square(v), v);
         descend(square(v), v);
       },
       2.4 - 0.48},
      {"a loss of both: the present value",
       [](const Variable& v, const Variable&) {
         const Tensor old = v.value();
         v.set(2 * v);
         descend(old * v, v);
       },
       6 - 0.3},
      {"between two sets",
       [](const Variable& v, const Variable&) {
         v.set(v + 1);
         const Tensor loss = square(v);
         v.set(v + 10);
         descend(loss, v);
       },
       14 - 0.8},
      {"another's loss",
       [](const Variable& v, const Variable& other) {
         const Tensor loss = square(other);
         v.set(v + 1);
         descend(loss, v);
       },
       4},
      {"read by an outer trace",
       [](const Variable& v, const Variable&) {
         const Tensor loss = square(v);
         Tensor slope;
         {
           const Trace inner;
           v.set(7.0);
           slope = gradients(loss, std::vector<Variable>{v})[0].value;
         }
         v.set(slope);
       },
       6},
      {"before a step is taken back",
       [](const Variable& v, const Variable&) {
         const Tensor first = square(v), second = 5 * v;
         descend(first, v);
         Trace::rollback_unless(first > 0);
         descend(second, v);
       },
       3 - 0.6 - 0.5},
  };
  for (const auto& row : kCases) {
    SCOPED_TRACE(row.name);
    const Variable v("v", Array::from(std::vector<float>{3}, {})), other("w", Array::from(std::vector<float>{3}, {}));
    Step step(cpu(), [&](const Inputs&) {
      row.body(v, other);
      return Outputs{};
    });
    step({});
    EXPECT_NEAR(value_of(v), row.expected, 1e-6);
  }
}

TEST(FormerValues, OutsideAStep) {
  const Variable v("v", Array::from(std::vector<float>{3}, {}));
  const Tensor loss = square(v);
  const auto slope = [&] { return evaluate(gradients(loss, std::vector<Variable>{v})[0].value, cpu()).item(); };
  EXPECT_EQ(slope(), 6);
  v.set(10.0);
  EXPECT_EQ(slope(), 6);
  Step step(cpu(), [&](const Inputs&) {
    v.set(v + 1);
    return Outputs{};
  });
  step({});
  EXPECT_EQ(slope(), 6);
  EXPECT_EQ(evaluate(gradients(square(v), std::vector<Variable>{v})[0].value, cpu()).item(), 22);
  EXPECT_LE(v.former_values().size(), 2u);
}

// As in a GAN: each optimizer moves its own Variables, by losses of both that were built first.
TEST(FormerValues, TwoThatMoveInTurn) {
  const Variable a("a", Array::from(std::vector<float>{1}, {})), b("b", Array::from(std::vector<float>{2}, {}));
  Step step(cpu(), [&](const Inputs&) {
    const Tensor of_a = a * b, of_b = a * b * b;
    descend(of_a, a);
    descend(of_b, b);
    return Outputs{};
  });
  step({});
  EXPECT_NEAR(value_of(a), 1 - 0.2, 1e-6);
  EXPECT_NEAR(value_of(b), 2 - 0.4, 1e-6);
}

}  // namespace
}  // namespace nixie
