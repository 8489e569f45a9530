// Products of quantized operands: which multiply stored numbers, with the emulation's results.
#include "nixie/core/passes/products.h"

#include "nixie/core/ops/formats.h"
#include "nixie/core/ops/operands.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

/// The products of a graph and those of them that multiply 8-bit floats.
std::pair<int, int> products_of(const Graph& graph) {
  std::pair<int, int> counts;
  for (const Tensor& x : topological(graph))
    if (std::holds_alternative<Matmul>(x.node().op)) {
      const bool both = is_f8(x.inputs()[0].dtype()) && is_f8(x.inputs()[1].dtype());
      ++counts.first, counts.second += both;
    }
  return counts;
}

Tensor numbers(const Shape& shape, unsigned seed, double size = 3) {
  return testing::random_array(shape, -size, size, seed).to(Dtype::f32);
}

Tensor by(const Tensor& x, const char* format, const Tensor& scale) {
  return quantized_by(x, scale, format_named(format));
}

TEST(StoredProducts, WhichMultiplyStoredNumbers) {
  const Tensor x = numbers({6, 8}, 1), w = numbers({5, 8}, 2), batch = numbers({2, 6, 8}, 3);
  const Tensor one = Array::from(std::vector<float>{0.25F}, {1});
  const Tensor each = Array::from(std::vector<float>{1, 2, 4, 8, 1, 2, 4, 8}, {8});
  const struct {
    const char* name;
    bool expected;
    Tensor product;
  } rows[] = {
      {"both with a scale", true, matmul(by(x, "e4m3", one), by(w, "e4m3", one), {.trans_b = true})},
      {"two formats", true, matmul(by(x, "e5m2", one), by(w, "e4m3", one), {.trans_b = true})},
      {"scales of their own", true,
       matmul(scaled_quantized(x, format_named("e4m3"), {}), scaled_quantized(w, format_named("e5m2"), {}),
              {.trans_b = true})},
      {"a scale for one", true, matmul(cast(x, Dtype::f8e4m3), by(w, "e4m3", one), {.trans_b = true})},
      {"no scale", true,
       matmul(scaled_quantized(x, format_named("e4m3"), {.group = ScaleGroup::none}),
              scaled_quantized(w, format_named("e4m3"), {.group = ScaleGroup::none}), {.trans_b = true})},
      {"a slice", true, matmul(slice(by(x, "e4m3", one), {Index::range(1, 4)}), by(w, "e4m3", one), {.trans_b = true})},
      {"one operand alone", false, matmul(by(x, "e4m3", one), w, {.trans_b = true})},
      {"scales of channels", false, matmul(by(x, "e4m3", each), by(w, "e4m3", one), {.trans_b = true})},
      {"another format", false, matmul(by(x, "e3m2", one), by(w, "e4m3", one), {.trans_b = true})},
      {"a batch", false, matmul(by(batch, "e4m3", one), by(w, "e4m3", one), {.trans_b = true})},
      {"a sum behind the rounding", false, matmul(by(x, "e4m3", one) + 1, by(w, "e4m3", one), {.trans_b = true})},
      {"padding of ones", false,
       matmul(pad(by(x, "e4m3", one), {0, 0}, {0, 2}, 1), pad(by(w, "e4m3", one), {0, 0}, {0, 2}, 1),
              {.trans_b = true})},
      {"a cast between", false,
       matmul(cast(cast(by(x, "e4m3", one), Dtype::bf16), Dtype::f32), by(w, "e4m3", one), {.trans_b = true})},
  };
  for (const auto& [name, expected, product] : rows) {
    const auto [all, of_stored] = products_of(prepare({.outputs = {product}}, PrecisionPolicy::fp32));
    EXPECT_EQ(all, 1) << name;
    EXPECT_EQ(of_stored == 1, expected) << name;
  }
}

// Few terms of few bits: sums are exact in any order, so the results are those of rounded f32 operands, bit by bit.
TEST(StoredProducts, HaveTheBitsOfTheEmulation) {
  for (const char* of_x : {"e4m3", "e5m2"})
    for (const char* of_w : {"e4m3", "e5m2"})
      for (const double size : {1e-20, 3.0, 1e15}) {
        const Tensor x = numbers({9, 24}, 4, size), w = numbers({24, 7}, 5, 0.01);
        const auto emulated = [](const Tensor& v, const char* format) {
          const Tensor scale = scale_of(v, format_named(format), {});
          return evaluate(quantized(v / scale, format_named(format)) * scale, cpu());
        };
        const Tensor expected = matmul(emulated(x, of_x), emulated(w, of_w)),
                     found = matmul(scaled_quantized(x, format_named(of_x), {}),
                                    scaled_quantized(w, format_named(of_w), {}));
        testing::expect_values(found, testing::values_of(expected), 0);
      }
}

// All three products of a linear layer, in f32 and in halves, which do not hold the sums before their scale.
TEST(StoredProducts, OfALinearLayerAndItsGradients) {
  const Array x = testing::random_array({12, 16}, -900, 900, 6), w = testing::random_array({10, 16}, -1, 1, 7);
  const auto losses = [&](bool rounds) {
    const Variable weight("w", w.to(Dtype::f32)), given("x", x.to(Dtype::f32));
    return [=](const Inputs&) {
      const OperandScope scope(!rounds ? OperandRule() : [](const Tensor& v, OperandRole role, const std::string&) {
        return scaled_quantized(v, format_named(role == OperandRole::gradients ? "e5m2" : "e4m3"), {});
      });
      const Tensor y = matmul(given, weight, {.trans_b = true});
      const std::vector<Tensor> g = gradients(sum(square(y)) * 1e-6, std::vector<Tensor>{weight, given});
      return Outputs{{"y", y}, {"w", g[0]}, {"x", g[1]}};
    };
  };
  for (const PrecisionPolicy policy : {PrecisionPolicy::fp32, PrecisionPolicy::fp16, PrecisionPolicy::bf16}) {
    Step exact(cpu(), losses(false), PrecisionPolicy::ieee), rounded(cpu(), losses(true), policy);
    const Outputs expected = exact({}), found = rounded({});
    for (const char* name : {"y", "w", "x"}) {
      const std::vector<double> a = testing::values_of(found.at(name)), b = testing::values_of(expected.at(name));
      double error = 0, size = 0;
      for (std::size_t i = 0; i < a.size(); ++i) error += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
      EXPECT_LT(std::sqrt(error / size), 0.08) << name << " " << to_string(policy);
      EXPECT_GT(std::sqrt(error / size), 0.005) << name << " " << to_string(policy);
    }
    EXPECT_THAT(to_string(rounded.plan({})), HasSubstr("f8e4m3"));
  }
}

}  // namespace
}  // namespace nixie
