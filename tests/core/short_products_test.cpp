// Products over few terms: no product in the plan, and the numbers of one in f64.
#include "nixie/core/passes/products.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

struct Case {
  std::string name;
  Shape a, b;
  std::function<Tensor(const Tensor&, const Tensor&)> product;
  int products;  ///< that are left, of the result and both gradients
};

std::function<Tensor(const Tensor&, const Tensor&)> conv_of(int stride, int pad, int groups = 1) {
  return [=](const Tensor& x, const Tensor& w) {
    return conv(x, w, {.stride = {stride}, .pad = {pad}, .groups = groups});
  };
}

std::vector<Case> cases() {
  const auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  return {{"one_term", {37, 1}, {1, 19}, product, 2},
          {"four_terms", {5, 4}, {4, 33}, product, 2},
          {"five_terms", {5, 5}, {5, 33}, product, 3},
          {"one_sample", {1, 40}, {40, 30}, product, 2},
          {"batches", {3, 7, 2}, {3, 2, 9}, product, 2},
          {"one_channel", {2, 1, 5, 6}, {8, 1, 1, 1}, conv_of(1, 0), 2},
          {"three_channels_stride_2", {2, 3, 7, 6}, {9, 3, 1, 1}, conv_of(2, 0), 2},
          {"one_filter", {2, 9, 5, 6}, {1, 9, 1, 1}, conv_of(1, 0), 2},
          {"one_filter_stride_2", {2, 9, 5, 6}, {1, 9, 1, 1}, conv_of(2, 0), 3},
          {"four_filters_of_a_signal", {2, 9, 20}, {4, 9, 1}, conv_of(1, 0), 2},
          {"padded", {2, 3, 5, 6}, {9, 3, 1, 1}, conv_of(1, 1), 3},
          {"window", {2, 3, 5, 6}, {9, 3, 1, 3}, conv_of(1, 0), 3},
          {"five_channels", {2, 5, 5, 6}, {9, 5, 1, 1}, conv_of(1, 0), 3},
          {"groups", {2, 6, 5, 6}, {9, 2, 1, 1}, conv_of(1, 0, 3), 3}};
}

std::vector<Tensor> result_and_gradients(const Case& c, Dtype dtype) {
  const Tensor a = cast(random_array(c.a, -1, 1, 1), dtype), b = cast(random_array(c.b, -1, 1, 2), dtype);
  const Tensor y = c.product(a, b);
  std::vector<Tensor> all = gradients(sum(y * y), {a, b});
  all.push_back(y);
  return all;
}

int products_in(const Plan& plan) {
  int count = 0;
  for (const Kernel& kernel : plan.kernels) count += kernel.head.has_value();
  return count;
}

std::vector<Tensor> computed(const Case& c, Dtype dtype, Fusion fusion, int* products = nullptr) {
  Step step(
      testing::cpu(),
      [&](const Inputs&) {
        const std::vector<Tensor> all = result_and_gradients(c, dtype);
        return Outputs{{"da", all[0]}, {"db", all[1]}, {"y", all[2]}};
      },
      PrecisionPolicy::fp32, fusion);
  if (products) *products = products_in(step.plan({}));
  const Outputs outputs = step({});
  return {outputs.at("da"), outputs.at("db"), outputs.at("y")};
}

TEST(ShortProducts, AreElementwiseAndEqualProductsInDoubles) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const std::vector<Tensor> exact = computed(c, Dtype::f64, Fusion::none);
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
      SCOPED_TRACE(to_string(dtype));
      int products = 0;
      const std::vector<Tensor> found = computed(c, dtype, Fusion::full, &products);
      EXPECT_LE(products, c.products);
      if (!testing::cpu().target().seconds) {  // others may prefer sums
        EXPECT_EQ(products, c.products);
      }
      const double bound = dtype == Dtype::f64 ? 1e-14 : dtype == Dtype::f32 ? 3e-6 : dtype == Dtype::f16 ? 0.02 : 0.2;
      for (std::size_t i = 0; i < found.size(); ++i)
        testing::expect_values(found[i], testing::values_of(exact[i]), bound);
    }
  }
}

// Written out, a product reads its numbers and arrays in another order, or a number in several shapes: evaluate binds
// what the plan has. A second evaluation, with other numbers, takes the first one's plan.
TEST(ShortProducts, BindTheirNumbersAndArrays) {
  const Tensor x = random_array({4, 2}, -1, 1, 3), w = random_array({4, 2}, -1, 1, 4);
  for (const double number : {0.1, 0.3}) {
    const Tensor cube = matmul(matmul(x, x, {.trans_b = true}), x), loss = sum(x * w) + sum(cube) * number;
    Step step(
        testing::cpu(),
        [&](const Inputs&) {
          return Outputs{{"slope", gradients(loss, std::vector<Tensor>{x})[0]}};
        },
        PrecisionPolicy::ieee, Fusion::none);
    const Tensor slope = evaluate(gradients(loss, std::vector<Tensor>{x})[0], testing::cpu());
    testing::expect_values(slope, testing::values_of(step({}).at("slope")), 1e-5);
  }
}

}  // namespace
}  // namespace nixie
