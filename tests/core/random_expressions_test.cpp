// Random expressions of unbounded numbers, evaluated at once and op by op: what a pass rewrites has the value of what
// was written. (The random graphs beside this file cut every value back to small integers, so no two ops meet.)
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

/// An expression, and the value of its ops, each evaluated by itself.
struct Pair {
  Tensor whole;
  Array stepwise;
  std::string text;
};

using Function = std::function<Tensor(const Tensor&, const Tensor&)>;
const std::pair<const char*, Function> kFunctions[] = {
    {"add", [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"sub", [](const Tensor& x, const Tensor& y) { return x - y; }},
    {"mul", [](const Tensor& x, const Tensor& y) { return x * y; }},
    {"times", [](const Tensor& x, const Tensor& y) { return y * x; }},
    {"div", [](const Tensor& x, const Tensor& y) { return x / (abs(y) + 0.5); }},
    {"maximum", [](const Tensor& x, const Tensor& y) { return maximum(x, y); }},
    {"where", [](const Tensor& x, const Tensor& y) { return where(x > y, x, y * 0.5); }},
    {"neg", [](const Tensor& x, const Tensor&) { return -x; }},
    {"square", [](const Tensor& x, const Tensor&) { return square(x); }},
    {"abs", [](const Tensor& x, const Tensor&) { return abs(x); }},
    {"tanh", [](const Tensor& x, const Tensor&) { return tanh(x); }},
    {"relu", [](const Tensor& x, const Tensor&) { return relu(x, 0.2); }},
    {"rsqrt", [](const Tensor& x, const Tensor&) { return rsqrt(square(x) + 1.0); }},
    {"reciprocal", [](const Tensor& x, const Tensor&) { return reciprocal(abs(x) + 1.0); }},
    {"scaled", [](const Tensor& x, const Tensor&) { return x * 0.7; }},
    {"same", [](const Tensor& x, const Tensor&) { return 1 * (x + 0); }},
    {"self", [](const Tensor& x, const Tensor&) { return x * x; }},
};

using Reduction = Tensor (*)(const Tensor&, const Axes&);
const std::pair<const char*, Reduction> kReductions[] = {
    {"sum", [](const Tensor& x, const Axes& axes) { return sum(x, axes); }},
    {"mean", [](const Tensor& x, const Axes& axes) { return mean(x, axes); }},
    {"max", [](const Tensor& x, const Axes& axes) { return max(x, axes); }},
    {"variance", [](const Tensor& x, const Axes& axes) { return variance(x, axes); }},
    {"prod", [](const Tensor& x, const Axes& axes) { return prod(x, axes); }},
    {"norm", [](const Tensor& x, const Axes& axes) { return norm(x, axes); }},
    {"softmax", [](const Tensor& x, const Axes& axes) { return softmax(x, axes); }},
    {"logsumexp", [](const Tensor& x, const Axes& axes) { return logsumexp(x, axes); }},
};

void expect_equal(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  std::vector<Pair> all;
  for (int i = 0; i < 6; ++i) {  // sizes of 1 broadcast
    const auto size = [&](std::int64_t most) { return below(3) > 0 ? most : 1; };
    const Array x = testing::random_array({size(2), size(3), size(5)}, -1.5, 1.5, static_cast<unsigned>(random()));
    all.push_back({x, x, fmt::format("{}", x.shape())});
  }
  const std::size_t ops = 3 + below(12);
  for (std::size_t k = 0; k < ops; ++k) {
    const Pair &x = all[below(2) ? all.size() - 1 : below(all.size())], &y = all[below(all.size())];
    Axes axes;
    for (int axis = 0; axis < 3; ++axis)
      if (below(2)) axes.push_back(axis);
    Pair next;
    if (!axes.empty() && below(3) == 0) {
      const auto& [name, reduce] = kReductions[below(2) ? 0 : below(std::size(kReductions))];
      next = {reduce(x.whole, axes), evaluate(reduce(Tensor(x.stepwise), axes), cpu()).array(),
              fmt::format("{}({})", name, x.text)};
    } else {
      const auto& [name, function] = kFunctions[below(std::size(kFunctions))];
      next = {function(x.whole, y.whole), evaluate(function(x.stepwise, y.stepwise), cpu()).array(),
              fmt::format("{}({}, {})", name, x.text, y.text)};
    }
    for (const double value : next.stepwise.to_vector<double>())
      if (!(std::abs(value) < 1e4)) return;
    all.push_back(std::move(next));
  }
  const std::vector<double> found = evaluate(all.back().whole, cpu()).to_vector<double>(),
                            expected = all.back().stepwise.to_vector<double>();
  ASSERT_EQ(found.size(), expected.size());
  double largest = 1e-3;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-8 * largest) << "seed " << seed << ": " << all.back().text;
}

TEST(RandomExpressions, AreTheirOpsOneAfterAnother) {
  for (unsigned seed = 0; seed < 1000 && !::testing::Test::HasFatalFailure(); ++seed) expect_equal(seed);
}

TEST(RandomExpressions, TenThousandLong) {
  for (unsigned seed = 1000; seed < 11000 && !::testing::Test::HasFatalFailure(); ++seed) expect_equal(seed);
}

}  // namespace
}  // namespace nixie
