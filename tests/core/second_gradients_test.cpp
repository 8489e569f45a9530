// Gradients of gradients where a formula on the way divides by 0: whole second derivatives against those by hand.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

TEST(SecondGradients, AreRightWhereFormulasAreNot) {
  constexpr double kHalf = 0.5;
  const auto raised = [](double power) { return [power](const Tensor& x) { return pow(x, power); }; };
  const auto product = [](const Tensor& x) { return prod(x); };
  const struct {
    std::string what;
    std::function<Tensor(const Tensor&)> op;
    std::vector<double> x;
    std::vector<double> slope;
    std::vector<double> second;  // row by row
  } kCases[] = {
      {"prod", product, {2, 3, 4}, {12, 8, 6}, {0, 4, 3, 4, 0, 2, 3, 2, 0}},
      {"prod with a zero", product, {0, 2, 3}, {6, 0, 0}, {0, 3, 2, 3, 0, 0, 2, 0, 0}},
      {"prod with two", product, {0, 5, 0}, {0, 0, 0}, {0, 0, 5, 0, 0, 0, 5, 0, 0}},
      {"prod with three", product, {0, 0, 0, 7}, {0, 0, 0, 0}, std::vector<double>(16, 0)},
      {"prod with a negative zero", product, {-0.0, 2}, {2, 0}, {0, 1, 1, 0}},
      {"x^0", raised(0), {0, 2, -3}, {0, 0, 0}, std::vector<double>(9, 0)},
      {"x^1", raised(1), {0, 2, -3}, {1, 1, 1}, std::vector<double>(9, 0)},
      {"x^2", raised(2), {0, -3}, {0, -6}, {2, 0, 0, 2}},
      {"x^3", raised(3), {0, 2}, {0, 12}, {0, 0, 0, 12}},
      {"safe_log",
       [](const Tensor& x) { return safe_log(x); },
       {0, -1, 2},
       {0, 0, 0.5},
       {0, 0, 0, 0, 0, 0, 0, 0, -0.25}},
      {"norm at 0", [](const Tensor& x) { return norm(x); }, {0, 0}, {0, 0}, {}},
      {"stddev of equals", [](const Tensor& x) { return stddev(x); }, {3, 3}, {0, 0}, {}},
      {"stddev", [](const Tensor& x) { return stddev(x); }, {1, 4}, {-kHalf, kHalf}, {0, 0, 0, 0}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.what);
    const auto size = static_cast<std::int64_t>(c.x.size());
    const Tensor x = Array::from(c.x, {size});
    const Tensor slope = gradients(sum(c.op(x)), {x})[0];
    const std::vector<double> found = values_of(slope);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], c.slope[i], 1e-13) << i;
    if (c.second.empty()) continue;
    std::vector<double> second;
    for (std::int64_t i = 0; i < size; ++i)
      for (const double value : values_of(gradients(sum(slice(slope, {Index::range(i, i + 1)})), {x})[0]))
        second.push_back(value);
    for (std::size_t i = 0; i < second.size(); ++i) EXPECT_NEAR(second[i], c.second[i], 1e-13) << i;
  }
}

// By the exponent, too: a^y has the slope y a^(y - 1), whose slope by y is (1 + y log a) a^(y - 1).
TEST(SecondGradients, OfAPowerByItsExponent) {
  for (const double base : {0.5, 1.5, 3.0})
    for (const double exponent : {0.0, 1e-9, 1.0, 2.0, -1.0}) {
      const Tensor a = Array::from(std::vector<double>{base}, {1}), y = Array::from(std::vector<double>{exponent}, {1});
      const Tensor slope = gradients(sum(pow(a, y)), {a})[0];
      EXPECT_NEAR(values_of(gradients(sum(slope), {y})[0])[0],
                  (1 + exponent * std::log(base)) * std::pow(base, exponent - 1), 1e-13)
          << base << "^" << exponent;
      // and once more by a, where the exponent of the slope is 0
      EXPECT_NEAR(values_of(gradients(sum(gradients(sum(slope), {a})[0]), {y})[0])[0],
                  (2 * exponent - 1 + exponent * (exponent - 1) * std::log(base)) * std::pow(base, exponent - 2), 1e-12)
          << base << "^" << exponent;
    }
}

}  // namespace
}  // namespace nixie
