// The losses' formulas. Everything keeps its dimensions until the last mean, so that it fuses.
#include "nixie/layers/loss.h"

#include <algorithm>
#include <limits>

#include "nixie/core/ops/elementwise.h"

namespace nixie {
namespace {

// Whether labels, of any shape, name classes of the output.
Tensor is_class(const Tensor& output, const Tensor& labels) {
  return logical_and(labels >= 0, labels < output.shape()[1]);
}

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

Shape without_classes(const Shape& shape) {
  std::vector<std::int64_t> sizes = shape.sizes();
  if (sizes.size() > 1) sizes.erase(sizes.begin() + 1);
  return Shape(std::move(sizes));
}

// Targets in the output's shape: themselves, or one-hot rows of labels with `low` in the place of 0.
Tensor full_target(const Tensor& output, const Tensor& target, double low = 0) {
  if (target.shape() == output.shape()) return target;
  check(output.rank() >= 2 && !is_floating(target.dtype()) && target.shape() == without_classes(output.shape()),
        "target is ", target.dtype(), " ", target.shape(), ", output is ", output.shape(),
        ", expected the output's shape or integer labels ", without_classes(output.shape()));
  const Tensor labels = broadcast_to(expand_dims(target, {1}), output.shape());
  return where(is_class(output, labels), where(label_mask(output, target), 1.0, low), kNoNumber);
}

}  // namespace

Tensor label_mask(const Tensor& output, const Tensor& labels) {
  check(output.rank() >= 2, "output is ", output.shape(), ", expected [N, classes, ...]");
  check(!is_floating(labels.dtype()) && labels.shape() == without_classes(output.shape()), "labels are ",
        labels.dtype(), " ", labels.shape(), " for an output of ", output.shape(), ", expected integers ",
        without_classes(output.shape()),
        is_floating(labels.dtype()) ? "; for targets that are numbers set another loss, for example mean_squared" : "");
  return coordinate(output.shape(), 1) == expand_dims(labels, {1});
}

Tensor spread_weights(const Tensor& weights, const Tensor& x) {
  const std::int64_t n = x.shape()[0];
  if (weights.rank() > 1 && weights.shape() == without_classes(x.shape())) return expand_dims(weights, {1});
  check(weights.shape() == Shape{n}, "weights are ", weights.shape(), ", expected [", n, "]");
  std::vector<std::int64_t> column(static_cast<std::size_t>(x.rank()), 1);
  column[0] = n;
  return reshape(weights, column);
}

namespace {

// A total of weights to divide by: the mean of what has none is 0.
Tensor divisor(const Tensor& total) { return where(total > 0, total, 1); }

// The mean of the losses [N, 1, ...] of labels, each NaN whose label is neither a class nor ignored. It is weighted
// where losses are multiplied by `of_classes`, the weights of their classes.
Tensor mean_over_labels(const Tensor& losses, const Tensor& output, const Tensor& target,
                        const std::optional<int>& ignore_index, const Tensor& weights, const Tensor& of_classes = {}) {
  const Tensor labels = expand_dims(target, {1});
  const Tensor known = where(is_class(output, labels), losses, kNoNumber);
  if (!ignore_index && !of_classes.has_value()) return weighted_mean(known, weights);
  const Tensor counts = ignore_index ? labels != *ignore_index : ones(losses.shape(), Dtype::boolean);
  Tensor share = cast(counts, Dtype::f32);
  if (weights.has_value()) share = share * spread_weights(weights, losses);
  return sum(where(counts, known, 0.0) * share) / divisor(sum(of_classes.has_value() ? share * of_classes : share));
}

// A number for each class, to be broadcast to the output.
Tensor along_classes(const std::vector<double>& numbers, int rank, Dtype type) {
  std::vector<std::int64_t> row(static_cast<std::size_t>(rank), 1);
  row[1] = std::ssize(numbers);
  return Array::from(numbers, Shape(row)).to(type == Dtype::f64 ? Dtype::f64 : Dtype::f32);
}

}  // namespace

Tensor weighted_mean(const Tensor& x, const Tensor& weights) {
  if (!weights.has_value()) return mean(x);
  const double per_weight = static_cast<double>(x.shape().size()) / static_cast<double>(weights.shape().size());
  return sum(x * spread_weights(weights, x)) / (divisor(sum(weights)) * per_weight);
}

Tensor class_weights_of(const Tensor& labels, const std::vector<double>& class_weights, Dtype type) {
  std::vector<std::int64_t> sizes = labels.shape().sizes();
  sizes.insert(sizes.begin() + 1, std::ssize(class_weights));
  const Tensor hit = coordinate(Shape(sizes), 1) == expand_dims(labels, {1});
  return sum(where(hit, along_classes(class_weights, labels.rank() + 1, type), 0.0), {1}, false);
}

namespace {

void check_class_weights(const std::vector<double>& numbers, std::int64_t classes) {
  check(std::ssize(numbers) == classes, numbers.size(), " class weights, the output has ", classes,
        " classes; give one for each");
  check(static_cast<float>(*std::max_element(numbers.begin(), numbers.end())) > 0,
        "all class weights are 0, so nothing is learnt; give a number above 0 to the classes that count");
}

}  // namespace

Tensor CrossEntropy::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  check_logits(output, output_function);
  const bool is_soft = is_floating(target.dtype()) && output.rank() >= 2 && target.shape() == output.shape();
  check(!is_soft || !ignore_index, "ignore_index is a label, the targets are probabilities ", target.shape(),
        "; set it to null");
  const Tensor mask = is_soft ? Tensor{} : label_mask(output, target);
  const std::int64_t classes = output.shape()[1];
  if (!class_weights.empty()) check_class_weights(class_weights, classes);
  const Tensor shifted = less_largest(output, {1}), log_total = log(sum(exp(shifted), {1}));
  const double share = label_smoothing / static_cast<double>(classes);  // of each class in the target
  const Tensor of_labels = is_soft || class_weights.empty()
                               ? Tensor{}
                               : expand_dims(class_weights_of(target, class_weights, output.dtype()), {1});
  if (is_soft || (of_labels.has_value() && share != 0)) {
    const Tensor surprise = log_total - shifted;
    Tensor terms;
    if (is_soft) {  // nothing of an infinite one is 0
      const Tensor part = (1 - label_smoothing) * target + share;
      terms = part * where(logical_and(part == 0, logical_not(is_finite(surprise))), 0.0, surprise);
    } else {
      terms = where(mask, (1 - label_smoothing + share) * surprise, share * surprise);
    }
    if (!class_weights.empty()) terms = terms * along_classes(class_weights, output.rank(), output.dtype());
    const Tensor losses = sum(terms, {1});
    return is_soft ? weighted_mean(losses, weights)
                   : mean_over_labels(losses, output, target, ignore_index, weights, of_labels);
  }
  const auto of_label = [&](const Tensor& x) { return sum(where(mask, x, 0.0), {1}); };
  // Each term is weighed before they are summed: the sum of large ones alone may be infinite.
  const Tensor expected =
      share == 0 ? of_label(shifted) : sum(where(mask, (1 - label_smoothing + share) * shifted, share * shifted), {1});
  const Tensor losses = log_total - expected;
  return mean_over_labels(of_labels.has_value() ? losses * of_labels : losses, output, target, ignore_index, weights,
                          of_labels);
}

Tensor BinaryCrossEntropy::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  check_logits(output, output_function);
  return weighted_mean(softplus(output) - full_target(output, target) * output, weights);
}

Tensor MeanSquared::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  return weighted_mean(square(output - full_target(output, target)), weights);
}

namespace {

// A parabola of the distance up to `bend`, its slope there `slope`, and then a line: x^2 / 2 times slope / bend. The
// parabola is that of no more than `bend`, since an infinite square in the branch that is not taken makes NaN of the
// gradient. Half of x first: x^2 may be infinite, too.
Tensor parabola_and_line(const Tensor& difference, double bend, double slope) {
  const Tensor distance = abs(difference), near = minimum(distance, bend);
  return where(distance < bend, near * (0.5 * slope / bend) * near, slope * (distance - 0.5 * bend));
}

}  // namespace

Tensor SmoothL1::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  return weighted_mean(parabola_and_line(output - full_target(output, target), beta, 1), weights);
}

Tensor SquaredHinge::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  return weighted_mean(square(relu(margin - full_target(output, target, -1) * output)), weights);
}

Tensor Hinge::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  return weighted_mean(relu(margin - full_target(output, target, -1) * output), weights);
}

Tensor Huber::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  return weighted_mean(parabola_and_line(output - full_target(output, target), delta, delta), weights);
}

namespace {

// -(1 - p)^gamma log p of log p. Its slope takes p log p for 0 where p is, also where log p is infinite.
const Elementwise focal_op{"focal",
                           [](auto log_p, auto gamma) {
                             const auto miss =
                                 max(-expm1(log_p), 1e-30);  // 1 - p; a power's slope at 0 may be infinite
                             return -pow(miss, gamma) * log_p;
                           },
                           [](const Tensor& g, const Tensor&, const Tensor& log_p, const Tensor& gamma) {
                             const Tensor near = maximum(log_p, -1000), miss = maximum(-expm1(near), 1e-30);
                             const Tensor slope = gamma * pow(miss, gamma - 1) * exp(near) * near - pow(miss, gamma);
                             return Gradients{g * slope, {}};
                           },
                           {.result = ResultType::floating, .domain = {-3, -0.1}}};

}  // namespace

Tensor Focal::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  check_logits(output, output_function);
  const Tensor shifted = less_largest(output, {1});
  const Tensor of_label = sum(where(label_mask(output, target), shifted, 0.0), {1});
  const Tensor log_p = of_label - log(sum(exp(shifted), {1}));
  const Tensor losses = focal_op(log_p, gamma);
  return mean_over_labels(losses, output, target, ignore_index, weights);
}

namespace {

// Targets in the output's shape, in f64 if the output is and else in f32.
Tensor distribution(const Tensor& output, const Tensor& target) {
  return cast(full_target(output, target), output.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32);
}

}  // namespace

Tensor Dice::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  check_logits(output, output_function);
  check(output.rank() >= 2, "output is ", output.shape(), ", expected [N, classes, ...]");
  Tensor p = softmax(output, {1}), t = distribution(output, target), of_samples = weights;
  Axes positions = all_axes(output.shape());
  positions.erase(positions.begin(), positions.begin() + 2);
  const auto total = [&](const Tensor& x) { return positions.empty() ? x : sum(x, positions); };
  if (ignore_index && !is_floating(target.dtype())) {
    const Tensor counts = expand_dims(target, {1}) != *ignore_index;
    p = where(counts, p, 0.0);
    t = where(counts, t, 0.0);
    const Tensor share = reshape(total(cast(counts, Dtype::f32)), {output.shape()[0]});
    of_samples = weights.has_value() ? share * weights : share;
  }
  return weighted_mean(1 - (2 * total(p * t) + smooth) / divisor(total(p) + total(t) + smooth), of_samples);
}

Tensor KlDivergence::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  check_logits(output, output_function);
  check(output.rank() >= 2, "output is ", output.shape(), ", expected [N, classes, ...]");
  const Tensor t = distribution(output, target), log_t = log(where(t > 0, t, 1.0));
  // 0 where t is, whatever p is there
  return weighted_mean(sum(where(t == 0, 0.0, t * (log_t - log_softmax(output, {1}))), {1}), weights);
}

AnyLoss::AnyLoss() : AnyLoss(CrossEntropy{}) {}

std::string field_text(const AnyLoss& loss) { return "{" + loss.text() + "}"; }
std::string field_text(const WeightedLoss& loss) { return fields_text(loss); }

std::optional<int> LossSum::ignored_label() const {
  return losses.empty() ? std::nullopt : losses[0].loss.ignored_label();
}

Range LossSum::target_range() const {
  Range common;
  for (const WeightedLoss& each : losses) {
    common.low = std::max(common.low, each.loss.target_range().low);
    common.high = std::min(common.high, each.loss.target_range().high);
  }
  return common;
}

std::string LossSum::output_function_of() const {
  for (const WeightedLoss& each : losses)
    if (!each.loss.output_function().empty()) return each.loss.output_function();
  return "";
}

Tensor LossSum::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  check(!losses.empty(), "has no losses");
  const auto counts = [](const WeightedLoss& each) { return static_cast<float>(each.weight) != 0; };
  check(std::any_of(losses.begin(), losses.end(), counts), "all weights are 0, so nothing is learnt; change one");
  // A figure of several batches weighs each by its labels that count: there is one such number.
  const auto ignored = [](const AnyLoss& loss) {
    return loss.kind() + (loss.ignored_label() ? fmt::format(" ignores {}", *loss.ignored_label()) : " ignores none");
  };
  for (const WeightedLoss& each : losses)
    check(each.loss.ignored_label() == ignored_label(), ignored(losses[0].loss), ", ", ignored(each.loss),
          ": the losses of a sum ignore the same label; change ignore_index");
  Tensor total;
  for (const WeightedLoss& each : losses) {
    const Tensor value = each.weight * each.loss(output, target, weights);
    total = total.has_value() ? total + value : value;
  }
  return total;
}

namespace {

bool is_map(const Tensor& x, const char* name) {
  const auto* map = op_as<Map>(x);
  return map && map->op->name == name;
}

/// e / sum(e) with e = exp(...).
bool is_softmax(const Tensor& x) {
  if (!is_map(x, "div") || !is_map(x.inputs()[0], "exp")) return false;
  Tensor total = x.inputs()[1];
  while (is_a<Expand>(total)) total = total.inputs()[0];
  const auto* reduce = op_as<Reduce>(total);
  return reduce && reduce->kind == ReduceKind::sum && total.inputs()[0].id() == x.inputs()[0].id();
}

}  // namespace

std::string squashed_by(const Tensor& output) {
  Tensor x = output;
  while (is_a<Reshape, Permute>(x) || is_map(x, "cast")) x = x.inputs()[0];
  return is_map(x, "sigmoid") ? "sigmoid" : is_softmax(x) ? "softmax" : "";
}

void check_logits(const Tensor& output, const char* function) {
  const std::string found = squashed_by(output);
  check(found.empty(), "the output is a ", found, "'s, but the loss takes logits and applies ", function,
        " itself; remove the ", found);
}

}  // namespace nixie
