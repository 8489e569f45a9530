// The metrics' formulas.
#include "nixie/layers/metric.h"

#include <map>

#include "nixie/layers/loss.h"

namespace nixie {
namespace {

// [N, 1, ...]: 1 where fewer than k outputs beat the label's; of equals the first wins, as in argmax. Written with
// not <= so that a NaN beats every number and a label's NaN beats nothing.
Tensor among_largest(const Tensor& output, const Tensor& labels, int k) {
  check(k <= output.shape()[1], "k is ", k, ", the output has ", output.shape()[1],
        " classes: every sample is right; set a smaller k");
  const Tensor position = expand_dims(labels, {1});
  const Tensor of_label = sum(where(label_mask(output, labels), output, 0.0), {1});
  const Tensor before = logical_and(output == of_label, coordinate(output.shape(), 1) < position);
  return sum(logical_or(logical_not(output <= of_label), before), {1}) < k;
}

// {sum(w x), sum(w)}, counting each element of x [N, 1, ...].
Tensor sums_of(const Tensor& x, const Tensor& weights) {
  const Tensor w = weights.has_value() ? weights : ones({x.shape()[0]});
  const double per_weight = static_cast<double>(x.shape().size()) / static_cast<double>(w.shape().size());
  return stack({sum(x * spread_weights(w, x)), sum(w) * per_weight});
}

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

Tensor class_sums(const Tensor& output, const Tensor& labels, const Tensor& weights) {
  const ClassCounts counts = class_counts(output, labels, weights);
  return concat({counts.found, counts.given, counts.present}, 0);
}

// The mean of figure(found, given, present) over the classes that are present or given.
template <class Figure>
double class_mean(const std::vector<double>& sums, const Figure& figure, bool counts_given = true) {
  const std::size_t classes = sums.size() / 3;
  double total = 0;
  int counted = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    const double given = sums[classes + c], present = sums[2 * classes + c];
    if (present == 0 && (!counts_given || given == 0)) continue;
    total += figure(sums[c], given, present);
    ++counted;
  }
  return ratio(total, counted);
}

}  // namespace

Tensor accuracy(const Tensor& output, const Tensor& labels, const Tensor& weights) {
  return top_k(output, labels, 1, weights);
}

Tensor top_k(const Tensor& output, const Tensor& labels, int k, const Tensor& weights) {
  return weighted_mean(cast(among_largest(output, labels, k), Dtype::f32), weights);
}

Tensor log_loss(const Tensor& output, const Tensor& labels, const Tensor& weights) {
  return cross_entropy(output, labels, {}, weights);
}

ClassCounts class_counts(const Tensor& output, const Tensor& labels, const Tensor& weights) {
  const Tensor present = label_mask(output, labels);
  const Tensor given = coordinate(output.shape(), 1) == argmax(output, {1});
  Axes others = all_axes(output.shape());
  others.erase(others.begin() + 1);
  const Tensor w = weights.has_value() ? spread_weights(weights, output) : ones({});
  return {sum(w * logical_and(present, given), others, false), sum(w * given, others, false),
          sum(w * present, others, false)};
}

Tensor Accuracy::sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const {
  return sums_of(among_largest(output, labels, 1), weights);
}
double Accuracy::value(const std::vector<double>& sums) const { return ratio(sums[0], sums[1]); }

Tensor TopK::sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const {
  return sums_of(among_largest(output, labels, k), weights);
}
double TopK::value(const std::vector<double>& sums) const { return ratio(sums[0], sums[1]); }

Tensor LogLoss::sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const {
  const Tensor of_label = sum(where(label_mask(output, labels), output, 0.0), {1});
  return sums_of(logsumexp(output, {1}) - of_label, weights);
}
double LogLoss::value(const std::vector<double>& sums) const { return ratio(sums[0], sums[1]); }

Tensor Precision::sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const {
  return class_sums(output, labels, weights);
}
double Precision::value(const std::vector<double>& sums) const {
  return class_mean(sums, [](double found, double given, double) { return ratio(found, given); });
}

Tensor Recall::sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const {
  return class_sums(output, labels, weights);
}
double Recall::value(const std::vector<double>& sums) const {
  return class_mean(
      sums, [](double found, double, double present) { return ratio(found, present); }, false);
}

Tensor F1::sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const {
  return class_sums(output, labels, weights);
}
double F1::value(const std::vector<double>& sums) const {
  return class_mean(sums, [](double found, double given, double present) { return ratio(2 * found, given + present); });
}

Tensor Iou::sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const {
  return class_sums(output, labels, weights);
}
double Iou::value(const std::vector<double>& sums) const {
  return class_mean(sums,
                    [](double found, double given, double present) { return ratio(found, given + present - found); });
}

Tensor MeanError::sums(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  const Tensor wanted = target.shape() == output.shape() ? target : cast(label_mask(output, target), Dtype::f32);
  return sums_of(abs(output - wanted), weights);
}
double MeanError::value(const std::vector<double>& sums) const { return ratio(sums[0], sums[1]); }

Tensor confusion_matrix(const Tensor& output, const Tensor& labels, const Tensor& weights) {
  const std::int64_t classes = output.shape()[1];
  Axes order = all_axes(output.shape());
  order.erase(order.begin() + 1);
  order.push_back(1);
  const auto rows = [&](const Tensor& mask) { return reshape(permute(mask, order), {-1, classes}); };
  const Tensor present = label_mask(output, labels), given = coordinate(output.shape(), 1) == argmax(output, {1});
  const Tensor w = weights.has_value() ? spread_weights(weights, output) : ones({});
  return matmul(rows(w * present), rows(cast(given, Dtype::f32)), {.trans_a = true});
}

AnyMetric::AnyMetric() : AnyMetric(Accuracy{}) {}

std::string field_text(const AnyMetric& metric) { return "{" + metric.text() + "}"; }

std::vector<std::string> metric_names(const std::vector<AnyMetric>& metrics) {
  std::map<std::string, int> seen{{"accuracy", 1}, {"loss", 1}};
  std::vector<std::string> names;
  for (const AnyMetric& metric : metrics) {
    const int number = ++seen[metric.kind()];
    names.push_back(number > 1 ? fmt::format("{}_{}", metric.kind(), number) : metric.kind());
  }
  return names;
}

}  // namespace nixie
