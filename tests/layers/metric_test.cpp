// Metrics against counting in double: values, batches with padding, and exact messages.
#include "nixie/layers/metric.h"

#include "nixie/tests/errors.h"
#include "nixie/tests/layers/layer_check.h"

namespace nixie {
namespace {

using reference::Values;

// Seven samples of four classes; the last is padding.
struct Evaluation {
  Values x = reference::rounded(reference::draw({7, 4}, 21));
  std::vector<std::int32_t> labels{0, 1, 1, 3, 0, 0, 2};
  std::vector<double> weights{1, 1, 1, 1, 2, 1, 0};

  // Position of a sample's class in descending order.
  int rank(std::int64_t n, std::int64_t k) const {
    int larger = 0;
    for (std::int64_t j = 0; j < 4; ++j) larger += x[n * 4 + j] > x[n * 4 + k];
    return larger;
  }
  double among(int k) const {
    double total = 0;
    for (std::int64_t n = 0; n < 7; ++n)
      total += weights[static_cast<std::size_t>(n)] * (rank(n, labels[static_cast<std::size_t>(n)]) < k);
    return total / 7;  // the sum of the weights
  }
  double count(std::int64_t k, bool given, bool present) const {
    double total = 0;
    for (std::int64_t n = 0; n < 7; ++n)
      if ((!given || rank(n, k) == 0) && (!present || labels[static_cast<std::size_t>(n)] == k))
        total += weights[static_cast<std::size_t>(n)];
    return total;
  }
  Tensor output() const { return reference::to_f32(x); }
  Tensor targets() const { return Array::from(labels, {7}); }
  Tensor sample_weights() const { return Array::from(weights, {7}).to(Dtype::f32); }
};

TEST(Metrics, FunctionsMatchCounting) {
  const Evaluation e;
  const Tensor x = e.output(), t = e.targets(), w = e.sample_weights();
  const std::vector<Tensor> found =
      evaluate({accuracy(x, t, w), top_k(x, t, 2, w), top_k(x, t, 4, w), log_loss(x, t, w)}, test_backend());
  EXPECT_NEAR(found[0].item(), e.among(1), 1e-6);
  EXPECT_NEAR(found[1].item(), e.among(2), 1e-6);
  EXPECT_NEAR(found[2].item(), 1, 1e-6);
  double loss = 0;
  for (std::int64_t n = 0; n < 7; ++n) {
    double total = 0;
    for (std::int64_t k = 0; k < 4; ++k) total += std::exp(e.x[n * 4 + k]);
    const auto at = static_cast<std::size_t>(n);
    loss += e.weights[at] * (std::log(total) - e.x[n * 4 + e.labels[at]]) / 7;
  }
  EXPECT_NEAR(found[3].item(), loss, 1e-6);

  const ClassCounts counts = class_counts(x, t, w);
  const std::vector<Tensor> each = evaluate({counts.found, counts.given, counts.present}, test_backend());
  for (std::int64_t k = 0; k < 4; ++k) {
    const auto at = static_cast<std::size_t>(k);
    EXPECT_EQ(each[0].to_vector<double>()[at], e.count(k, true, true));
    EXPECT_EQ(each[1].to_vector<double>()[at], e.count(k, true, false));
    EXPECT_EQ(each[2].to_vector<double>()[at], e.count(k, false, true));
  }
}

// A metric over the whole, from batches of three with the last one padded.
double in_batches(const AnyMetric& metric, const Evaluation& e) {
  std::vector<double> total;
  for (std::int64_t first = 0; first < 7; first += 3) {
    std::vector<float> x, w;
    std::vector<std::int32_t> t;
    for (std::int64_t n = first; n < first + 3; ++n) {
      const std::int64_t sample = std::min<std::int64_t>(n, 6);
      for (std::int64_t k = 0; k < 4; ++k) x.push_back(static_cast<float>(e.x[sample * 4 + k]));
      t.push_back(e.labels[static_cast<std::size_t>(sample)]);
      w.push_back(n > 6 ? 0 : static_cast<float>(e.weights[static_cast<std::size_t>(n)]));
    }
    const Tensor sums = metric.sums(Array::from(x, {3, 4}), Array::from(t, {3}), Array::from(w, {3}));
    const std::vector<double> batch = evaluate(sums, test_backend()).to_vector<double>();
    total.resize(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) total[i] += batch[i];
  }
  return metric.value(total);
}

TEST(Metrics, AddUpOverBatches) {
  const Evaluation e;
  EXPECT_NEAR(in_batches(Accuracy{}, e), e.among(1), 1e-6);
  EXPECT_NEAR(in_batches(TopK{.k = 3}, e), e.among(3), 1e-6);
  EXPECT_NEAR(in_batches(LogLoss{}, e), evaluate(log_loss(e.output(), e.targets(), e.sample_weights())).item(), 1e-6);
  double precision = 0, recall = 0;
  int seen = 0, present = 0;
  for (std::int64_t k = 0; k < 4; ++k) {
    const double found = e.count(k, true, true), given = e.count(k, true, false), there = e.count(k, false, true);
    if (given > 0 || there > 0) ++seen;
    if (given > 0) precision += found / given;
    if (there > 0) ++present, recall += found / there;
  }
  double f1 = 0, iou = 0;
  for (std::int64_t k = 0; k < 4; ++k) {
    const double found = e.count(k, true, true), given = e.count(k, true, false), there = e.count(k, false, true);
    if (given + there == 0) continue;
    f1 += 2 * found / (given + there);
    iou += found / (given + there - found);
  }
  EXPECT_NEAR(in_batches(F1{}, e), f1 / seen, 1e-6);
  EXPECT_NEAR(in_batches(Iou{}, e), iou / seen, 1e-6);
  double error = 0;
  for (std::int64_t i = 0; i < 28; ++i) {
    const auto n = static_cast<std::size_t>(i / 4);
    error += e.weights[n] * std::abs(e.x[i] - (e.labels[n] == i % 4)) / 28;
  }
  EXPECT_NEAR(in_batches(MeanError{}, e), error, 1e-6);
  EXPECT_NEAR(in_batches(Precision{}, e), precision / seen, 1e-6);
  EXPECT_NEAR(in_batches(Recall{}, e), recall / present, 1e-6);
}

TEST(Metrics, AConfusionMatrixCountsEveryPair) {
  const Evaluation e;
  const Tensor matrix = evaluate(confusion_matrix(e.output(), e.targets(), e.sample_weights()), test_backend());
  ASSERT_EQ(matrix.shape(), (Shape{4, 4}));
  const std::vector<double> found = matrix.to_vector<double>();
  std::vector<double> expected(16, 0.0);
  for (std::int64_t n = 0; n < 7; ++n)
    for (std::int64_t k = 0; k < 4; ++k)
      if (e.rank(n, k) == 0)
        expected[static_cast<std::size_t>(e.labels[static_cast<std::size_t>(n)] * 4 + k)] +=
            e.weights[static_cast<std::size_t>(n)];
  EXPECT_EQ(found, expected);
  // Positions of a picture count one by one.
  const Tensor pixels = Array::from(std::vector<float>{1, 0, 0, 0, 1, 1}, {1, 2, 3});
  const Tensor labels = Array::from(std::vector<std::int32_t>{0, 0, 1}, {1, 3});
  EXPECT_EQ(evaluate(confusion_matrix(pixels, labels), test_backend()).to_vector<double>(),
            (std::vector<double>{1, 1, 0, 1}));
}

// Two pictures of two pixels; what has the weight 0 may have any label.
TEST(Metrics, WeighEachLabelWhereTheyHaveAWeightForEach) {
  const Tensor x = Array::from(std::vector<float>{1, 0, 0, 1, 1, 1, 0, 0}, {2, 2, 2});  // classes 0 1, 0 0
  const Tensor labels = Array::from(std::vector<std::int32_t>{0, 255, 1, 0}, {2, 2});
  const Tensor weights = Array::from(std::vector<float>{1, 0, 1, 2}, {2, 2});
  const auto value = [&](const AnyMetric& metric) {
    return metric.value(evaluate(metric.sums(x, labels, weights), test_backend()).to_vector<double>());
  };
  EXPECT_FLOAT_EQ(value(Accuracy{}), 3.0 / 4);
  EXPECT_FLOAT_EQ(evaluate(accuracy(x, labels, weights), test_backend()).item(), 3.0 / 4);
  EXPECT_FLOAT_EQ(value(LogLoss{}), (3 * std::log1p(std::exp(-1)) + std::log1p(std::exp(1))) / 4);
  EXPECT_FLOAT_EQ(value(Iou{}), (3.0 / 4 + 0) / 2);
  EXPECT_FLOAT_EQ(value(MeanError{}), 1.0 / 4);
  EXPECT_EQ(evaluate(confusion_matrix(x, labels, weights), test_backend()).to_vector<double>(),
            (std::vector<double>{3, 0, 1, 0}));
}

TEST(Metrics, TiesGoToTheFirstAndNaNIsWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Array::from(std::vector<float>{1, 1, 0, 1, 1, 0, nan, nan, nan, 5, nan, 1}, {4, 3});
  const Tensor labels = Array::from(std::vector<std::int32_t>{0, 1, 0, 0}, {4});
  const std::vector<Tensor> found = evaluate({accuracy(x, labels), top_k(x, labels, 2)}, test_backend());
  EXPECT_FLOAT_EQ(found[0].item(), 0.25);  // only the first sample
  EXPECT_FLOAT_EQ(found[1].item(), 0.75);  // all but the sample that is all NaN
}

TEST(Metrics, OfNothingAreZero) {
  EXPECT_EQ(Accuracy{}.value({0, 0}), 0);
  EXPECT_EQ(Precision{}.value({0, 0, 0}), 0);
  EXPECT_EQ(Recall{}.value({0, 0, 0}), 0);
}

TEST(Metrics, SayWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              AnyMetric(TopK{.k = 0}).sums(zeros({2, 3}), zeros({2}, Dtype::i32));
            }),
            "top_k: k is 0, expected a number from 1 up");
  EXPECT_EQ(error_of([] {
              AnyMetric(TopK{.k = 4}).sums(zeros({2, 3}), zeros({2}, Dtype::i32));
            }),
            "top_k: k is 4, the output has 3 classes: every sample is right; set a smaller k");
  EXPECT_EQ(error_of([] {
              AnyMetric().sums(zeros({2, 3}), zeros({3}, Dtype::i32));
            }),
            "accuracy: labels are i32 [3] for an output of [2, 3], expected integers [2]");
  EXPECT_EQ(AnyMetric(TopK{}).text(), "top_k: {k: 5}");
  const std::vector<AnyMetric> metrics{F1{}, TopK{}, Accuracy{}, TopK{.k = 3}, TopK{.k = 2}};
  EXPECT_EQ(metric_names(metrics), (std::vector<std::string>{"f1", "top_k", "accuracy_2", "top_k_2", "top_k_3"}));
}

}  // namespace
}  // namespace nixie
