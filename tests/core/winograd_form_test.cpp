// Winograd's form of a convolution: the values of the convolution and of its gradients, in few kernels.
#include "nixie/tests/core/winograd_form.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

using testing::winograd;

TEST(WinogradForm, HasTheValuesOfAConvolutionInFewKernels) {
  const Tensor x = random_array({2, 8, 13, 10}, -1, 1, 1).to(Dtype::f32),
               w = random_array({6, 8, 3, 3}, -1, 1, 2).to(Dtype::f32),
               dy = random_array({2, 6, 13, 10}, -1, 1, 3).to(Dtype::f32);
  const Tensor y = conv(x, w, {.pad = {1}});
  const std::vector<Tensor> expected = gradients(sum(y * dy), {x, w});
  const Tensor turned = flip(permute(w, {1, 0, 2, 3}), {2, 3});
  struct Role {
    const char* what;
    Tensor form, expected;
  };
  const Role roles[] = {{"y", winograd(x, w, 1), y},
                        {"dx", winograd(dy, turned, 1), expected[0]},
                        {"dw", gradients(sum(winograd(x, w, 1) * dy), {w})[0], expected[1]}};
  for (const Role& role : roles) {
    const std::vector<double> values = testing::values_of(role.form), exact = testing::values_of(role.expected);
    ASSERT_EQ(values.size(), exact.size());
    double largest = 0, error = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      largest = std::max(largest, std::abs(exact[i]));
      error = std::max(error, std::abs(values[i] - exact[i]));
    }
    EXPECT_LT(error, 1e-6 * largest) << role.what;
    const auto backend = make_cpu_backend(1);
    const Plan plan = make_plan(simplify({.outputs = {role.form}}), *backend);
    EXPECT_LE(plan.kernels.size(), 5u) << role.what << "\n" << to_string(plan);
  }
}

}  // namespace
}  // namespace nixie
