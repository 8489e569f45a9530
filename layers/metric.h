// Metrics: the figures of an evaluation. A metric computes a short vector of sums for each batch; the vectors of all
// batches are added, and the total gives the value. So the figure of a whole dataset is exact, independent of batches
// and padding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

// As with losses: outputs [N, K, ...], integer labels [N, ...], weights [N] or none; or a weight for each label [N,
// ...], 0 where it does not count. An output with NaN is wrong.

/// Fraction of samples whose largest output is the label's.
Tensor accuracy(const Tensor& output, const Tensor& labels, const Tensor& weights = {});
/// Fraction of samples whose label is among the k largest outputs.
Tensor top_k(const Tensor& output, const Tensor& labels, int k, const Tensor& weights = {});
/// Mean of -log softmax(output)[label].
Tensor log_loss(const Tensor& output, const Tensor& labels, const Tensor& weights = {});

/// Counts per class, each [K]: true positives, samples predicted as the class, samples of the class.
struct ClassCounts {
  Tensor found, given, present;
};
ClassCounts class_counts(const Tensor& output, const Tensor& labels, const Tensor& weights = {});

struct Accuracy {
  static constexpr const char* name = "accuracy";
  static constexpr auto fields() { return field_list(); }
  Tensor sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const;
  double value(const std::vector<double>& sums) const;
};

struct TopK {
  int k = 5;

  static constexpr const char* name = "top_k";
  static constexpr auto fields() {
    return field_list(field("k", &TopK::k, "a sample is right if its label is among the k largest outputs", {1}));
  }
  Tensor sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const;
  double value(const std::vector<double>& sums) const;
};

struct LogLoss {
  static constexpr const char* name = "log_loss";
  static constexpr bool is_error = true;
  static constexpr auto fields() { return field_list(); }
  Tensor sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const;
  double value(const std::vector<double>& sums) const;
};

/// True positives / predicted, the mean over the classes that are present or predicted; 0 for a class never predicted.
struct Precision {
  static constexpr const char* name = "precision";
  static constexpr auto fields() { return field_list(); }
  Tensor sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const;
  double value(const std::vector<double>& sums) const;
};

/// True positives / present, the mean over the classes that are present.
struct Recall {
  static constexpr const char* name = "recall";
  static constexpr auto fields() { return field_list(); }
  Tensor sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const;
  double value(const std::vector<double>& sums) const;
};

/// 2 true positives / (predicted + present), the harmonic mean of precision and recall; the mean over the classes that
/// are present or predicted.
struct F1 {
  static constexpr const char* name = "f1";
  static constexpr auto fields() { return field_list(); }
  Tensor sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const;
  double value(const std::vector<double>& sums) const;
};

/// true positives / (predicted + present - true positives), the intersection over union of a class's positions; the
/// mean over the classes that are present or predicted.
struct Iou {
  static constexpr const char* name = "iou";
  static constexpr auto fields() { return field_list(); }
  Tensor sums(const Tensor& output, const Tensor& labels, const Tensor& weights) const;
  double value(const std::vector<double>& sums) const;
};

/// The mean of |output - target|; labels are equivalent to one-hot rows.
struct MeanError {
  static constexpr const char* name = "mean_error";
  static constexpr bool is_error = true;
  static constexpr auto fields() { return field_list(); }
  Tensor sums(const Tensor& output, const Tensor& target, const Tensor& weights) const;
  double value(const std::vector<double>& sums) const;
};

/// [K, K]: sums of the weights of samples (positions) of class i, by row, that were predicted as class j, by column.
Tensor confusion_matrix(const Tensor& output, const Tensor& labels, const Tensor& weights = {});

template <class T>
concept Metric = Options<T> && requires(const T& metric, const Tensor& x, const std::vector<double>& sums) {
  { metric.sums(x, x, x) } -> std::convertible_to<Tensor>;
  { metric.value(sums) } -> std::convertible_to<double>;
};

/// Any metric, as a value; by default the accuracy.
class AnyMetric {
 public:
  AnyMetric();
  AnyMetric(const AnyMetric&) = default;  // no move, so that an AnyMetric always is one
  AnyMetric& operator=(const AnyMetric&) = default;
  template <Metric T>
  AnyMetric(const T& metric)
      : kind_(T::name),
        text_(fields_text(metric)),
        sums_([metric](const Tensor& output, const Tensor& labels, const Tensor& weights) {
          check_fields(metric);
          return metric.sums(output, labels, weights);
        }),
        value_([metric](const std::vector<double>& sums) { return metric.value(sums); }) {
    if constexpr (requires { T::is_error; }) is_error_ = T::is_error;
  }

  /// `top_k`
  const std::string& kind() const { return kind_; }
  /// `top_k: {k: 5}`
  std::string text() const { return kind_ + ": " + text_; }
  /// The vector of a batch; add the vectors of several batches.
  Tensor sums(const Tensor& output, const Tensor& labels, const Tensor& weights = {}) const {
    Scope scope({}, kind_);
    return sums_(output, labels, weights);
  }
  /// The figure, from the total over all batches.
  double value(const std::vector<double>& sums) const { return value_(sums); }
  /// Whether less is better, without a bound; others are shares, from 0 to 1.
  bool is_error() const { return is_error_; }

 private:
  bool is_error_ = false;
  std::string kind_, text_;
  std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> sums_;
  std::function<double(const std::vector<double>&)> value_;
};
std::string field_text(const AnyMetric& metric);

/// The name of each figure in reports of an evaluation: its kind, with a number if that name is taken, also by the
/// evaluation's own loss and accuracy: `top_k`, `top_k_2`.
std::vector<std::string> metric_names(const std::vector<AnyMetric>& metrics);

using AllMetrics = Types<Accuracy, TopK, LogLoss, Precision, Recall, F1, Iou, MeanError>;

}  // namespace nixie
