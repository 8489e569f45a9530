// Losses against plain loops in double: values, gradients, padding weights and class weights.
#include "nixie/layers/loss.h"

#include "nixie/tests/errors.h"
#include "nixie/tests/layers/layer_check.h"

namespace nixie {
namespace {

using reference::Values;

// Elements per sample of [N, K, inner...]; labels are [N, inner...].
struct Sizes {
  std::int64_t n, k, inner;
  explicit Sizes(const Shape& shape) : n(shape[0]), k(shape[1]), inner(shape.size() / (shape[0] * shape[1])) {}
};

std::vector<std::int32_t> some_labels(const Shape& shape) {
  const Sizes s(shape);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < s.n * s.inner; ++i) labels.push_back(static_cast<std::int32_t>((7 * i + 2) % s.k));
  return labels;
}

Array labels_array(const Shape& shape) {
  std::vector<std::int64_t> sizes = shape.sizes();
  sizes.erase(sizes.begin() + 1);
  return Array::from(some_labels(shape), Shape(std::move(sizes)));
}

// One-hot rows with `low` for the other classes.
Values one_hot(const Shape& shape, double low) {
  const Sizes s(shape);
  const auto labels = some_labels(shape);
  Values t(shape);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t n = i / (s.k * s.inner), k = i / s.inner % s.k, at = n * s.inner + i % s.inner;
    t[i] = labels[static_cast<std::size_t>(at)] == k ? 1 : low;
  }
  return t;
}

// A loss for each element of the output, averaged over a sample, then over samples with weights.
double average(const Values& each, const std::vector<double>& weights) {
  const std::int64_t per_sample = each.size() / each.shape[0];
  double total = 0, weight = 0;
  for (std::int64_t i = 0; i < each.size(); ++i)
    total += weights[static_cast<std::size_t>(i / per_sample)] * each[i] / static_cast<double>(per_sample);
  for (double w : weights) weight += w;
  return total / weight;
}

using Expected = std::function<double(const Values& x, const Values& target, const std::vector<double>& weights)>;

Expected elementwise(double (*f)(double x, double t)) {
  return [=](const Values& x, const Values& t, const std::vector<double>& weights) {
    Values each = x;
    for (std::int64_t i = 0; i < x.size(); ++i) each[i] = f(x[i], t[i]);
    return average(each, weights);
  };
}

Expected cross_entropy_with(double smoothing) {
  return [=](const Values& x, const Values& t, const std::vector<double>& weights) {
    const Sizes s(x.shape);
    Values each(Shape{s.n, s.inner});
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t i = 0; i < s.inner; ++i) {
        double total = 0;
        for (std::int64_t k = 0; k < s.k; ++k) total += std::exp(x[(n * s.k + k) * s.inner + i]);
        for (std::int64_t k = 0; k < s.k; ++k) {
          const double target = (1 - smoothing) * t[(n * s.k + k) * s.inner + i] + smoothing / static_cast<double>(s.k);
          each[n * s.inner + i] -= target * (x[(n * s.k + k) * s.inner + i] - std::log(total));
        }
      }
    return average(each, weights);
  };
}

/// A figure for each position from the probabilities of its classes and its label's.
Expected of_labels(const std::function<double(const std::vector<double>& p, std::size_t label)>& f) {
  return [=](const Values& x, const Values&, const std::vector<double>& weights) {
    const Sizes s(x.shape);
    const auto labels = some_labels(x.shape);
    Values each(Shape{s.n, s.inner});
    for (std::int64_t at = 0; at < s.n * s.inner; ++at) {
      std::vector<double> p;
      double total = 0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        p.push_back(std::exp(x[(at / s.inner * s.k + k) * s.inner + at % s.inner]));
        total += p.back();
      }
      for (double& value : p) value /= total;
      each[at] = f(p, static_cast<std::size_t>(labels[static_cast<std::size_t>(at)]));
    }
    return average(each, weights);
  };
}

/// With p the softmax of x: the divergence of t from p, or 1 - the overlap of the two for each class.
Expected by_class(bool kl) {
  return [=](const Values& x, const Values& t, const std::vector<double>& weights) {
    const Sizes s(x.shape);
    Values each(kl ? Shape{s.n, s.inner} : Shape{s.n, s.k});
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.k; ++k) {
        double both = 0, of_p = 0, of_t = 0;
        for (std::int64_t i = 0; i < s.inner; ++i) {
          double total = 0;
          for (std::int64_t j = 0; j < s.k; ++j) total += std::exp(x[(n * s.k + j) * s.inner + i]);
          const std::int64_t at = (n * s.k + k) * s.inner + i;
          const double p = std::exp(x[at]) / total;
          both += p * t[at], of_p += p, of_t += t[at];
          if (kl && t[at] > 0) each[n * s.inner + i] += t[at] * (std::log(t[at]) - std::log(p));
        }
        if (!kl) each[n * s.k + k] = 1 - (2 * both + 1) / (of_p + of_t + 1);
      }
    return average(each, weights);
  };
}

struct LossCase {
  AnyLoss loss;
  Expected expected;
  double low = 0;            ///< of one-hot targets
  bool labels_only = false;  ///< does not take targets of the output's shape
};

std::vector<LossCase> loss_cases() {
  return {
      {CrossEntropy{}, cross_entropy_with(0)},
      {CrossEntropy{.label_smoothing = 0.1}, cross_entropy_with(0.1)},
      {BinaryCrossEntropy{}, elementwise([](double x, double t) {
         const double p = 1 / (1 + std::exp(-x));
         return -(t * std::log(p) + (1 - t) * std::log(1 - p));
       })},
      {MeanSquared{}, elementwise([](double x, double t) { return (x - t) * (x - t); })},
      {SmoothL1{}, elementwise([](double x, double t) {
         const double d = std::abs(x - t);
         return d < 1 ? d * d / 2 : d - 0.5;
       })},
      {SmoothL1{.beta = 0.5}, elementwise([](double x, double t) {
         const double d = std::abs(x - t);
         return d < 0.5 ? d * d : d - 0.25;
       })},
      {SquaredHinge{}, elementwise([](double x, double t) { return std::pow(std::max(0.0, 1 - t * x), 2); }), -1},
      {Hinge{.margin = 1.5}, elementwise([](double x, double t) { return std::max(0.0, 1.5 - t * x); }), -1},
      {Huber{.delta = 0.5}, elementwise([](double x, double t) {
         const double d = std::abs(x - t);
         return d < 0.5 ? d * d / 2 : 0.5 * (d - 0.25);
       })},
      {Focal{}, of_labels([](const std::vector<double>& p, std::size_t label) {
         return -std::pow(1 - p[label], 2) * std::log(p[label]);
       }),
       0, true},
      {Focal{.gamma = 0}, cross_entropy_with(0), 0, true},
      {Focal{.gamma = 0.5}, of_labels([](const std::vector<double>& p, std::size_t label) {
         return -std::sqrt(1 - p[label]) * std::log(p[label]);
       }),
       0, true},
      {Dice{}, by_class(false)},
      {KlDivergence{}, by_class(true)},
      {LossSum{{{MeanSquared{}, 0.5}, {SmoothL1{}, 2}}}, elementwise([](double x, double t) {
         const double d = std::abs(x - t);
         return 0.5 * d * d + 2 * (d < 1 ? d * d / 2 : d - 0.5);
       })},
  };
}

void check_loss(const LossCase& c, const Shape& shape, bool weighted, bool labels) {
  SCOPED_TRACE(fmt::format("{} {} weighted {} labels {}", c.loss.text(), shape, weighted, labels));
  Values x = reference::rounded(reference::draw(shape, 3, -2, 2));
  const Values target = labels ? one_hot(shape, c.low) : reference::rounded(reference::draw(shape, 4, 0, 1));
  std::vector<double> weights(static_cast<std::size_t>(shape[0]), 1);
  if (weighted)
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i + 1 == weights.size() ? 0 : 0.5 + i;
  const Tensor in = reference::to_f32(x);
  const Tensor loss = c.loss(in, labels ? Tensor(labels_array(shape)) : Tensor(reference::to_f32(target)),
                             weighted ? Tensor(Array::from(weights, {shape[0]}).to(Dtype::f32)) : Tensor());
  ASSERT_EQ(loss.shape(), Shape{});
  const std::vector<Tensor> found = evaluate({loss, gradients(loss, {in})[0]}, test_backend());
  const double expected = c.expected(x, target, weights);
  EXPECT_NEAR(found[0].item(), expected, 3e-6 * std::max(1.0, expected));
  expect_close(found[1].to_vector<double>(),
               reference::differences(
                   x, [&] { return c.expected(x, target, weights); }, 1e-4),
               2e-6, "gradient");
}

TEST(Losses, MatchTheirFormulas) {
  for (const LossCase& c : loss_cases())
    for (const Shape& shape : {Shape{5, 4}, Shape{1, 7}, Shape{3, 4, 2, 3}})
      for (const bool weighted : {false, shape[0] > 1})
        for (const bool labels : {true, c.labels_only}) check_loss(c, shape, weighted, labels);
}

TEST(Losses, EveryLossOfTheRegistryHasACase) {
  std::set<std::string> seen;
  for (const LossCase& c : loss_cases()) seen.insert(c.loss.kind());
  AllLosses::for_each([&]<class T>() { EXPECT_TRUE(seen.count(T::name)) << T::name; });
}

TEST(Losses, FunctionsAreTheOptionsCalled) {
  const Tensor x = reference::to_f32(reference::draw({4, 3}, 1)), t = reference::to_f32(reference::draw({4, 3}, 2));
  const Tensor labels = labels_array({4, 3}), w = Array::from(std::vector<float>{1, 2, 0, 1}, {4});
  const std::vector<Tensor> found =
      evaluate({cross_entropy(x, labels, {.label_smoothing = 0.2}, w), binary_cross_entropy(x, t, w),
                mean_squared(x, t, w), smooth_l1(x, t, {.beta = 2}, w), squared_hinge(x, t, {.margin = 2}, w)},
               test_backend());
  const std::vector<Tensor> expected =
      evaluate({CrossEntropy{0.2}(x, labels, w), BinaryCrossEntropy{}(x, t, w), MeanSquared{}(x, t, w),
                SmoothL1{2}(x, t, w), SquaredHinge{2}(x, t, w)},
               test_backend());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].item(), expected[i].item());
}

TEST(Loss, OfALabelThatIsNoClassIsNoNumber) {
  const Tensor output = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  for (const std::int32_t label : {-1, 3, 7, 2147483647}) {
    const Tensor labels = Array::from(std::vector<std::int32_t>{1, label}, {2});
    const std::vector<AnyLoss> losses{CrossEntropy{},
                                      CrossEntropy{.label_smoothing = 0.1},
                                      BinaryCrossEntropy{},
                                      MeanSquared{},
                                      SmoothL1{},
                                      SquaredHinge{},
                                      Hinge{},
                                      Huber{},
                                      Dice{},
                                      KlDivergence{},
                                      Focal{},
                                      Focal{.gamma = 0},
                                      CrossEntropy{.ignore_index = 5}};
    for (const AnyLoss& loss : losses)
      EXPECT_TRUE(std::isnan(evaluate(loss(output, labels), test_backend()).item())) << loss.text() << " " << label;
  }
  const Tensor bytes = Array::from(std::vector<std::uint8_t>{1, 255}, {2});
  EXPECT_TRUE(std::isnan(evaluate(cross_entropy(output, bytes), test_backend()).item()));
}

// PyTorch's: each class's term has its weight, and the sum is divided by that of the labels' weights, or for
// probabilities by the number of positions.
TEST(Loss, ClassWeightsMakeAWeightedMean) {
  const std::vector<double> class_weights = {0.5, 2, 7};
  for (const Shape& shape : {Shape{5, 3}, Shape{4, 3, 2, 2}})
    for (const double smoothing : {0.0, 0.2})
      for (const bool weighted : {false, true})
        for (const int ignored : {-1, 1})
          for (const bool soft : {false, true}) {
            if (soft && ignored >= 0) continue;
            SCOPED_TRACE(fmt::format("{} {} {} {} {}", shape, smoothing, weighted, ignored, soft));
            const Sizes s(shape);
            Values x = reference::rounded(reference::draw(shape, 3, -2, 2));
            const Values t = soft ? reference::rounded(reference::draw(shape, 4, 0, 1)) : one_hot(shape, 0);
            const auto labels = some_labels(shape);
            const auto weight_of = [&](std::int64_t n) { return weighted ? static_cast<double>(n) : 1.0; };
            const auto expected = [&] {
              double total = 0, divisor = 0;
              for (std::int64_t n = 0; n < s.n; ++n)
                for (std::int64_t i = 0; i < s.inner; ++i) {
                  const std::int32_t label = labels[static_cast<std::size_t>(n * s.inner + i)];
                  if (label == ignored) continue;
                  double sum = 0;
                  for (std::int64_t k = 0; k < s.k; ++k) sum += std::exp(x[(n * s.k + k) * s.inner + i]);
                  for (std::int64_t k = 0; k < s.k; ++k) {
                    const std::int64_t at = (n * s.k + k) * s.inner + i;
                    const double part = (1 - smoothing) * t[at] + smoothing / static_cast<double>(s.k);
                    total += weight_of(n) * class_weights[static_cast<std::size_t>(k)] * part * (std::log(sum) - x[at]);
                  }
                  divisor += weight_of(n) * (soft ? 1 : class_weights[static_cast<std::size_t>(label)]);
                }
              return total / divisor;
            };
            std::vector<double> weights;
            for (std::int64_t n = 0; n < s.n; ++n) weights.push_back(weight_of(n));
            CrossEntropy loss{.label_smoothing = smoothing, .class_weights = class_weights};
            if (ignored >= 0) loss.ignore_index = ignored;
            const Tensor in = reference::to_f32(x);
            const Tensor value = loss(in, soft ? Tensor(reference::to_f32(t)) : Tensor(labels_array(shape)),
                                      weighted ? Tensor(Array::from(weights, {s.n}).to(Dtype::f32)) : Tensor());
            const std::vector<Tensor> found = evaluate({value, gradients(value, {in})[0]}, test_backend());
            EXPECT_NEAR(found[0].item(), expected(), 3e-6 * expected());
            expect_close(found[1].to_vector<double>(), reference::differences(x, expected, 1e-4), 2e-6, "gradient");
          }
}

TEST(Loss, ClassWeightsOfNothingAndOfTheWrongSize) {
  const Tensor x = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor labels = Array::from(std::vector<std::int32_t>{1, 1}, {2});
  const auto value = [&](const CrossEntropy& loss) { return evaluate(loss(x, labels), test_backend()).item(); };
  EXPECT_EQ(value({.class_weights = {1, 0, 1}}), 0);
  EXPECT_EQ(value({.ignore_index = 1}), 0);
  EXPECT_THAT(error_of([&] {
                value({.class_weights = {1, 2}});
              }),
              HasSubstr("2 class weights, the output has 3 classes"));
  EXPECT_THAT(error_of([&] { value({.class_weights = {0, 0, 0}}); }), HasSubstr("all class weights are 0"));
  EXPECT_EQ(error_of([&] { CrossEntropy{.ignore_index = 1}(x, x); }),
            "ignore_index is a label, the targets are probabilities [2, 3]; set it to null");
}

// A class that cannot be costs nothing where nothing of it is wanted.
TEST(Loss, ProbabilitiesOfImpossibleClasses) {
  const Tensor x = Array::from(std::vector<float>{0, 0, -INFINITY}, {1, 3});
  const Tensor wanted = Array::from(std::vector<float>{0.25, 0.75, 0}, {1, 3});
  const Tensor loss = cross_entropy(x, wanted);
  const std::vector<Tensor> found = evaluate({loss, gradients(loss, {x})[0]}, test_backend());
  EXPECT_NEAR(found[0].item(), std::log(2.0), 1e-6);
  expect_close(found[1].to_vector<double>(), {0.25, -0.25, 0}, 1e-6, "gradient");
}

// Labels of any integer type; the ignored one may be a class or none.
TEST(Loss, IgnoredLabelsCountForNothing) {
  const Array x = reference::to_f32(reference::draw({4, 3, 2}, 31));
  const Array weights = Array::from(std::vector<float>{1, 2, 0, 3}, {4});
  for (const Dtype dtype : {Dtype::i32, Dtype::i64, Dtype::u8})
    for (const int ignored : {2, 255}) {
      const double i = ignored;
      const Array labels = Array::from(std::vector<double>{0, i, 1, 0, i, i, i, 1}, {4, 2}).to(dtype);
      const CrossEntropy plain, ignoring{.ignore_index = ignored};
      // The same positions picked by hand: sample, position.
      const std::vector<std::pair<std::int64_t, std::int64_t>> kept{{0, 0}, {1, 0}, {1, 1}, {3, 1}};
      double total = 0, total_weight = 0, sum_of_all = 0;
      for (const auto& [n, p] : kept) {
        const Tensor one = slice(x, {Index::range(n, n + 1), Index::all(), Index::range(p, p + 1)});
        const Tensor label = slice(labels, {Index::range(n, n + 1), Index::range(p, p + 1)});
        const double loss = evaluate(plain(one, label), test_backend()).item();
        const double weight = weights.data<float>()[static_cast<std::size_t>(n)];
        sum_of_all += loss;
        total += weight * loss;
        total_weight += weight;
      }
      EXPECT_NEAR(evaluate(ignoring(x, labels), test_backend()).item(), sum_of_all / 4, 1e-6);
      EXPECT_NEAR(evaluate(ignoring(x, labels, weights), test_backend()).item(), total / total_weight, 1e-6);
      const Tensor given = x, gradient = gradients(ignoring(given, labels), {given})[0];
      const std::vector<double> g = evaluate(gradient, test_backend()).to_vector<double>();
      for (std::size_t at = 0; at < g.size(); ++at) {
        const bool is_ignored = labels.to_vector<double>()[at / 6 * 2 + at % 2] == i;
        EXPECT_EQ(g[at] == 0, is_ignored) << at;
      }
    }
  const Tensor none = Array::from(std::vector<std::int32_t>{9, 9}, {2});
  for (const AnyLoss& loss : {AnyLoss(CrossEntropy{.ignore_index = 9}), AnyLoss(Focal{.ignore_index = 9}),
                              AnyLoss(Dice{.ignore_index = 9}), AnyLoss(Dice{.smooth = 0, .ignore_index = 9})}) {
    const Tensor logits = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), value = loss(logits, none);
    const std::vector<Tensor> found = evaluate({value, gradients(value, {logits})[0]}, test_backend());
    EXPECT_EQ(found[0].item(), 0) << loss.text();
    EXPECT_EQ(found[1].to_vector<double>(), std::vector<double>(6, 0)) << loss.text();
  }
}

}  // namespace
}  // namespace nixie
