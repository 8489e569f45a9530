// Rules for the operands of products: which are weights, what the gradients' products read, nesting.
#include "nixie/core/ops/operands.h"
#include "nixie/core/ops/formats.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

Array numbers(const Shape& shape, unsigned seed) { return testing::random_array(shape, -2, 2, seed); }

struct Seen {
  std::vector<std::string> operands = {};
  OperandRule rule() {
    return [this](const Tensor& x, OperandRole role, const std::string& layer) {
      operands.push_back(fmt::format("{} {} {}", layer, to_string(role), x.shape()));
      return x;
    };
  }
};

TEST(Operands, EveryProductAsksForItsOperands) {
  const Variable w("w", numbers({4, 3}, 1)), filter("filter", numbers({2, 1, 3, 3}, 2)),
      up("up", numbers({2, 1, 2, 2}, 3));
  const Tensor x = numbers({5, 3}, 4), image = numbers({1, 1, 5, 5}, 5);
  using Lines = std::vector<std::string>;
  const struct {
    std::function<Tensor()> product;
    Lines expected;
  } rows[] = {
      {[&] { return matmul(x, w, {.trans_b = true}); }, {"a activations [5, 3]", "a weights [4, 3]"}},
      {[&] { return matmul(w, x, {.trans_b = true}); }, {"a weights [4, 3]", "a activations [5, 3]"}},
      {[&] { return matmul(x, transpose(x)); }, {"a activations [5, 3]", "a activations [3, 5]"}},
      {[&] { return matmul(x, 2 * transpose(w)); }, {"a activations [5, 3]", "a weights [3, 4]"}},
      {[&] { return conv(image, filter); }, {"a activations [1, 1, 5, 5]", "a weights [2, 1, 3, 3]"}},
      {[&] { return deconv(conv(image, filter), up); },
       {"a activations [1, 1, 5, 5]", "a weights [2, 1, 3, 3]", "a activations [1, 2, 3, 3]",
        "a weights [2, 1, 2, 2]"}},
  };
  for (const auto& row : rows) {
    Seen seen;
    Tensor loss;
    {
      const Scope layer("a");
      const OperandScope scope(seen.rule());
      loss = sum(row.product());
    }
    EXPECT_EQ(seen.operands, row.expected);
    const std::size_t before = seen.operands.size();
    gradients(loss, {Tensor(w), Tensor(filter), Tensor(up), x});
    // One call for the gradient of each product's result, though the scope has ended; none for their products.
    EXPECT_EQ(seen.operands.size(), before + row.expected.size() / 2);
    EXPECT_THAT(seen.operands.back(), HasSubstr("a gradients"));
  }
}

// y = q(x) q(w)^T; dw = q(dy)^T q(x), dx = q(dy) q(w): written out by hand.
TEST(Operands, RoundedForwardAndBackward) {
  const Variable w("w", numbers({4, 3}, 1)), x("x", numbers({5, 3}, 2));
  const Array slope = numbers({5, 4}, 3);
  const auto q = [](const Tensor& t) { return quantized(t, format_named("e2m1")); };
  Tensor loss;
  {
    const OperandScope scope([&](const Tensor& t, OperandRole, const std::string&) { return q(t); });
    loss = sum(matmul(x, w, {.trans_b = true}) * slope);
  }
  const std::vector<Tensor> found = gradients(loss, {Tensor(w), Tensor(x)});
  const std::vector<Tensor> expected = {matmul(q(slope), q(x), {.trans_a = true}), matmul(q(slope), q(w))};
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(values_of(evaluate(found[i], cpu())), values_of(evaluate(expected[i], cpu())));
  EXPECT_EQ(values_of(evaluate(loss, cpu())),
            values_of(evaluate(sum(matmul(q(x), q(w), {.trans_b = true}) * slope), cpu())));
}

// A rule that gives operands back as they are, as one that measures them does, is in no plan.
TEST(Operands, ARuleThatChangesNothingAddsNoComputation) {
  const Variable w("w", numbers({4, 3, 3, 3}, 1)), b("b", numbers({4, 1, 1}, 2));
  const auto plan_with = [&](const OperandRule& rule) {
    const OperandScope scope(rule);
    Step step(cpu(), [&](const Inputs& in) {
      const Tensor loss = sum(relu(conv(in["x"], w) + b));
      for (const Gradient& each : gradients(loss, std::vector<Variable>{w, b}))
        each.parameter.set(each.parameter - each.value);
      return Outputs{{"loss", loss}};
    });
    return to_string(step.plan({{"x", Tensor(numbers({2, 3, 8, 8}, 3))}}));
  };
  EXPECT_EQ(plan_with([](const Tensor& x, OperandRole, const std::string&) { return x; }), plan_with({}));
}

TEST(Operands, TheInnermostScopeCountsAndAnEmptyRuleIsNone) {
  Seen outer, inner;
  const Tensor x = numbers({2, 2}, 1);
  const OperandScope first(outer.rule());
  {
    const OperandScope second(inner.rule());
    matmul(x, x);
    const OperandScope third({});
    matmul(x, x);
  }
  EXPECT_EQ(inner.operands.size(), 2U);
  EXPECT_TRUE(outer.operands.empty());
  matmul(x, x);
  EXPECT_EQ(outer.operands.size(), 2U);
}

}  // namespace
}  // namespace nixie
