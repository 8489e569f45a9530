// Products of f32 whose channels have scales of their own: what a policy promises holds for each result.
#include "nixie/core/step.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

// Normal numbers; each index of an axis has a scale of its own from 2^-30 to 2^30.
Array scaled_by_index(const Shape& shape, int axis, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<int> exponents(static_cast<std::size_t>(shape[axis]));
  for (int& exponent : exponents) exponent = static_cast<int>(random() % 61) - 30;
  std::int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  Array array(Dtype::f32, shape);
  std::int64_t i = 0;
  for (float& x : array.data<float>())
    x = std::ldexp(normal(random), exponents[static_cast<std::size_t>(i++ / inner % shape[axis])]);
  return array;
}

// A product of x and w, and its gradients for a result's gradient dy.
struct Product {
  std::string name;
  Shape x, w, y;
  std::function<Tensor(const Tensor&, const Tensor&)> of;
};
std::vector<Product> products() {
  const auto layer = [](int groups) {
    return [groups](const Tensor& x, const Tensor& w) { return conv(x, w, {.pad = {1}, .groups = groups}); };
  };
  return {{"3x3", {4, 64, 20, 20}, {96, 64, 3, 3}, {4, 96, 20, 20}, layer(1)},
          {"groups", {4, 128, 20, 20}, {128, 64, 3, 3}, {4, 128, 20, 20}, layer(2)},
          {"first layer", {4, 3, 40, 40}, {64, 3, 3, 3}, {4, 64, 40, 40}, layer(1)},
          {"linear", {1152, 512}, {1024, 512}, {1152, 1024}, [](const Tensor& x, const Tensor& w) {
             return matmul(x, w, {.trans_b = true});
           }}};
}

// The product and both gradients, of these operands.
std::vector<std::vector<double>> results(const Product& product, const std::vector<Tensor>& operands) {
  const auto body = [&](const Inputs& in) {
    const Tensor y = product.of(in["x"], in["w"]);
    const std::vector<Tensor> slopes = gradients(sum(y * in["dy"]), std::vector<Tensor>{in["x"], in["w"]});
    return Outputs{{"y", y}, {"dx", slopes[0]}, {"dw", slopes[1]}};
  };
  Step step(cpu(), body, PrecisionPolicy::fp32);
  const Outputs found = step({{"x", operands[0]}, {"w", operands[1]}, {"dy", operands[2]}});
  std::vector<std::vector<double>> values;
  for (const char* name : {"y", "dx", "dw"}) values.push_back(found.at(name).to_vector<double>());
  return values;
}

// |error| against f64, in units of 2^-24 sum |a||b|. A sum of f32 in any order stays far below 100.
TEST(ChannelScales, Fp32KeepsTheDigitsOfEveryResult) {
  for (const Product& product : products()) {
    const std::vector<Array> operands{scaled_by_index(product.x, 1, 1), scaled_by_index(product.w, 1, 2),
                                      scaled_by_index(product.y, 1, 3)};
    std::vector<Tensor> given, exact, sizes;
    for (const Array& array : operands) {
      given.emplace_back(array), exact.emplace_back(array.to(Dtype::f64));
      Array size = array.to(Dtype::f64);
      for (double& x : size.data<double>()) x = std::abs(x);
      sizes.emplace_back(size);
    }
    const auto found = results(product, given), expected = results(product, exact), sums = results(product, sizes);
    for (std::size_t role = 0; role < 3; ++role) {
      double worst = 0;
      for (std::size_t i = 0; i < found[role].size(); ++i)
        worst = std::max(worst, std::abs(found[role][i] - expected[role][i]) / sums[role][i]);
      EXPECT_LT(worst * 0x1p24, 100) << product.name << ", " << (role == 0 ? "y" : role == 1 ? "dx" : "dw");
    }
  }
}

}  // namespace
}  // namespace nixie
