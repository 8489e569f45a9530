// Losses: functions of a net's output and targets that return one number, and the same as options for a configuration.
//
// Outputs are [N, ...]; the result is a scalar (rank 0), the mean over samples. `weights` [N] makes it the weighted
// mean, sum(w loss) / sum(w): padding of an evaluation batch has weight 0. Targets have the output's shape, or are
// class labels (integers, the output's shape without axis 1), equivalent to one-hot rows. A label that is no class,
// below 0 or too large, makes the loss NaN, unless it is the loss's `ignore_index`. Numbers outside a loss's
// `target_range` are refused where samples are read (TargetReader, data/dataset.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

/// -log softmax(output)[label], along axis 1; with label smoothing s, (1 - s) times that plus s times the mean over all
/// classes. Outputs are logits [N, K, ...], targets labels [N, ...], or probabilities t in the output's shape and of a
/// floating type: -sum(t log softmax(output)). Class weights make the mean over labels the weighted one, as in PyTorch:
/// each class's term of a loss has its weight, and the sum is divided by that of the labels' weights (of probabilities
/// by the number of positions). Positions labelled `ignore_index` are excluded; the mean is 0 where nothing is left to
/// divide by (NaN in PyTorch).
struct CrossEntropy {
  double label_smoothing = 0;
  std::vector<double> class_weights = {};
  std::optional<int> ignore_index = {};

  static constexpr const char* name = "cross_entropy";
  static constexpr const char* output_function = "softmax";
  static constexpr auto fields() {
    return field_list(field("label_smoothing", &CrossEntropy::label_smoothing,
                            "fraction of the target spread over all classes", {0, 1}),
                      field("class_weights", &CrossEntropy::class_weights,
                            "weight of each class; the mean is divided by the sum of the labels' weights; [] = 1", {0}),
                      field("ignore_index", &CrossEntropy::ignore_index, "positions with this label are ignored"));
  }
  std::optional<int> ignored_label() const { return ignore_index; }
  static constexpr Range target_range() { return {0, 1}; }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// -(t log p + (1 - t) log(1 - p)) with p = sigmoid(output), t in [0, 1]: computed as softplus(x) - t x.
struct BinaryCrossEntropy {
  static constexpr const char* name = "binary_cross_entropy";
  static constexpr const char* output_function = "sigmoid";
  static constexpr auto fields() { return field_list(); }
  static constexpr Range target_range() { return {0, 1}; }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// (x - t)^2.
struct MeanSquared {
  static constexpr const char* name = "mean_squared";
  static constexpr auto fields() { return field_list(); }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// With d = |x - t|: d^2 / (2 beta) for d < beta, else d - beta / 2 (Girshick 2015).
struct SmoothL1 {
  double beta = 1;

  static constexpr const char* name = "smooth_l1";
  static constexpr auto fields() {
    return field_list(field("beta", &SmoothL1::beta, "where the parabola becomes a line", {1e-30}));
  }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// max(0, margin - t x)^2 with t = 1 or -1, or a number between them.
struct SquaredHinge {
  double margin = 1;

  static constexpr const char* name = "squared_hinge";
  static constexpr auto fields() {
    return field_list(field("margin", &SquaredHinge::margin, "where the loss becomes zero"));
  }
  static constexpr Range target_range() { return {-1, 1}; }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// max(0, margin - t x) with t = 1 or -1, or a number between them.
struct Hinge {
  double margin = 1;

  static constexpr const char* name = "hinge";
  static constexpr auto fields() { return field_list(field("margin", &Hinge::margin, "where the loss becomes zero")); }
  static constexpr Range target_range() { return {-1, 1}; }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// With d = |x - t|: d^2 / 2 for d < delta, else delta (d - delta / 2) (Huber 1964).
struct Huber {
  double delta = 1;

  static constexpr const char* name = "huber";
  static constexpr auto fields() {
    return field_list(field("delta", &Huber::delta, "where the parabola becomes a line", {1e-30}));
  }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// -(1 - p)^gamma log p with p = softmax(output)[label] along axis 1 (Lin et al. 2017, for many classes): the cross
/// entropy with less weight on well-classified samples. Outputs, labels and `ignore_index` as for cross_entropy.
struct Focal {
  double gamma = 2;
  std::optional<int> ignore_index = {};

  static constexpr const char* name = "focal";
  static constexpr const char* output_function = "softmax";
  static constexpr auto fields() {
    return field_list(field("gamma", &Focal::gamma, "focusing exponent; 0 = the cross entropy", {0}),
                      field("ignore_index", &Focal::ignore_index, "positions with this label are ignored"));
  }
  std::optional<int> ignored_label() const { return ignore_index; }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// 1 - (2 sum(p t) + smooth) / (sum(p) + sum(t) + smooth) for each sample and class, the mean over classes, with p =
/// softmax(output) along axis 1 (Milletari et al. 2016); sums are over positions. With an `ignore_index` those with
/// this label are in no sum, and a sample weighs as much as it has others.
struct Dice {
  double smooth = 1;
  std::optional<int> ignore_index = {};

  static constexpr const char* name = "dice";
  static constexpr const char* output_function = "softmax";
  static constexpr auto fields() {
    return field_list(
        field("smooth", &Dice::smooth, "added to numerator and denominator, so that absent classes cost nothing", {0}),
        field("ignore_index", &Dice::ignore_index, "positions with this label are ignored"));
  }
  std::optional<int> ignored_label() const { return ignore_index; }
  static constexpr Range target_range() { return {0, 1}; }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

/// sum of t (log t - log p) over axis 1, with p = softmax(output): the divergence from a target distribution.
struct KlDivergence {
  static constexpr const char* name = "kl_divergence";
  static constexpr const char* output_function = "softmax";
  static constexpr auto fields() { return field_list(); }
  static constexpr Range target_range() { return {0, 1}; }
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

// The same as functions: cross_entropy(logits, labels, {.label_smoothing = 0.1}, weights).
inline Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropy options = {},
                            const Tensor& weights = {}) {
  return options(logits, labels, weights);
}
inline Tensor binary_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weights = {}) {
  return BinaryCrossEntropy{}(logits, target, weights);
}
inline Tensor mean_squared(const Tensor& output, const Tensor& target, const Tensor& weights = {}) {
  return MeanSquared{}(output, target, weights);
}
inline Tensor smooth_l1(const Tensor& output, const Tensor& target, SmoothL1 options = {}, const Tensor& weights = {}) {
  return options(output, target, weights);
}
inline Tensor squared_hinge(const Tensor& output, const Tensor& target, SquaredHinge options = {},
                            const Tensor& weights = {}) {
  return options(output, target, weights);
}

/// An options struct that can be called with output, target and weights.
template <class T>
concept Loss = Options<T> && requires(const T& loss, const Tensor& x) {
  { loss(x, x, x) } -> std::convertible_to<Tensor>;
};

/// Any loss, as a value; by default the cross entropy.
class AnyLoss {
 public:
  AnyLoss();
  AnyLoss(const AnyLoss&) = default;  // no move, so that an AnyLoss always is one
  AnyLoss& operator=(const AnyLoss&) = default;
  template <Loss T>
  AnyLoss(const T& loss)
      : kind_(T::name),
        text_(fields_text(loss)),
        call_([loss](const Tensor& output, const Tensor& target, const Tensor& weights) {
          check_fields(loss);
          return loss(output, target, weights);
        }) {
    if constexpr (requires { loss.ignored_label(); }) ignored_label_ = loss.ignored_label();
    if constexpr (requires { loss.target_range(); }) target_range_ = loss.target_range();
    if constexpr (requires { loss.class_weights; }) class_weights_ = loss.class_weights;
    if constexpr (requires { T::output_function; }) output_function_ = T::output_function;
    if constexpr (requires { loss.output_function_of(); }) output_function_ = loss.output_function_of();
  }

  /// `cross_entropy`
  const std::string& kind() const { return kind_; }
  /// The label whose positions it leaves out.
  const std::optional<int>& ignored_label() const { return ignored_label_; }
  /// The numbers that targets of the output's shape may hold.
  const Range& target_range() const { return target_range_; }
  /// The weights of classes by which it divides; empty: labels count alike.
  const std::vector<double>& class_weights() const { return class_weights_; }
  /// The function that it applies to the output itself, `softmax` or `sigmoid`; else "".
  const std::string& output_function() const { return output_function_; }
  /// `cross_entropy: {label_smoothing: 0}`
  std::string text() const { return kind_ + ": " + text_; }
  /// Throws if shapes or types do not match, with the loss's name in front.
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const {
    Scope scope({}, kind_);
    return call_(output, target, weights);
  }

 private:
  std::string kind_, text_, output_function_;
  std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> call_;
  std::optional<int> ignored_label_;
  Range target_range_;
  std::vector<double> class_weights_;
};
std::string field_text(const AnyLoss& loss);

/// One loss of a sum.
struct WeightedLoss {
  AnyLoss loss;
  double weight = 1;

  static constexpr const char* name = "weighted_loss";
  static constexpr auto fields() {
    return field_list(field("loss", &WeightedLoss::loss, "the loss"),
                      field("weight", &WeightedLoss::weight, "its factor"));
  }
};
std::string field_text(const WeightedLoss& loss);

/// The weighted sum of several losses of one output, which ignore the same label or none.
struct LossSum {
  std::vector<WeightedLoss> losses;

  static constexpr const char* name = "loss_sum";
  static constexpr auto fields() { return field_list(field("losses", &LossSum::losses, "losses and their factors")); }
  /// That of each of them.
  std::optional<int> ignored_label() const;
  /// The targets that all of them take.
  Range target_range() const;
  /// That of the first that has one.
  std::string output_function_of() const;
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights = {}) const;
};

using AllLosses = Types<CrossEntropy, BinaryCrossEntropy, MeanSquared, SmoothL1, SquaredHinge, Hinge, Huber, Focal,
                        Dice, KlDivergence, LossSum>;

/// 1 where the class is the label, as u8 in the output's shape; labels are integers in its shape without axis 1.
Tensor label_mask(const Tensor& output, const Tensor& labels);
/// The weight of each label's class, in the labels' shape; 0 for a label that is no class. f64 if `type` is, else f32.
Tensor class_weights_of(const Tensor& labels, const std::vector<double>& class_weights, Dtype type = Dtype::f32);
/// Weights of samples [N], or of labels [N, ...] as x [N, K, ...] has them, in a shape that broadcasts to x.
Tensor spread_weights(const Tensor& weights, const Tensor& x);
/// sum(w x) / sum(w), where x is [N, ...] and first averaged over the axes that weights do not have; without weights
/// the mean. 0 if all weights are.
Tensor weighted_mean(const Tensor& x, const Tensor& weights);

/// `softmax` or `sigmoid` if the value is a result of core's function of that name, also seen in another shape, order
/// or type; else "".
std::string squashed_by(const Tensor& output);
/// Throws for an output that is such a result; `function` is the one that the loss applies to its output.
void check_logits(const Tensor& output, const char* function);

}  // namespace nixie
