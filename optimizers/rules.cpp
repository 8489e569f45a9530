// The update rules' formulas.
#include "nixie/optimizers/rules.h"

#include <algorithm>
#include <cmath>

namespace nixie {
namespace {

Tensor decayed(const Tensor& grad, double weight_decay, const Variable& w) {
  return weight_decay == 0 ? grad : grad + weight_decay * w;
}

// Averages with a rate of 1, as steps compute it, stay 0: Adam's correction divides by 0, other rules by eps alone.
bool is_rate(double rate) { return static_cast<float>(rate) < 1; }
void check_rates(double beta1, double beta2) {
  check(is_rate(beta1) && is_rate(beta2), "beta1 is ", beta1, " and beta2 ", beta2,
        ", expected numbers below 1 in f32");
}
void check_rate(const char* key, double rate) {
  check(is_rate(rate), key, " is ", rate, ", with which the average never changes, expected a number below 1 in f32");
}

// Squares and what they are compared with are f32 beside halves, too: the square of a gradient of 1e-4 is 0 in f16, and
// so is an eps of 1e-8.
Variable make_f32_buffer(const Parameters& state, const char* name, const Variable& w, Init init = {},
                         const std::optional<NumberRange>& range = {}) {
  return state.state(name, w.shape(), init, w.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32, range);
}
Variable make_squares(const Parameters& state, const char* name, const Variable& w, Init init = {}) {
  return make_f32_buffer(state, name, w, init, kNotNegative);
}

Tensor squared(const Tensor& g, const Variable& average) { return square(cast(g, average.dtype())); }

/// 1 - beta^count, with all of its digits where beta is near 1.
Tensor correction(double beta, const Tensor& count) {
  return -expm1(count * std::max(std::log(beta), -1e3));  // of no average the logarithm is infinite
}

// Adam's step with the averages m and v of g.
void adam_step(const Variable& w, const Variable& m, const Variable& v, const Tensor& g, const UpdateContext& now,
               double beta1, double beta2, double eps, const Tensor& shrunk) {
  const Tensor step_size = now.rate / correction(beta1, now.count);
  const Tensor scale = rsqrt(correction(beta2, now.count));
  m.set(beta1 * m + (1 - beta1) * g);
  v.set(beta2 * v + (1 - beta2) * squared(g, v));
  now.set(w, shrunk - step_size * m / (sqrt(v) * scale + eps));
}

}  // namespace

AnyOptimizer::AnyOptimizer() : AnyOptimizer(Sgd{}) {}
std::string field_text(const AnyOptimizer& optimizer) { return "{" + optimizer.text() + "}"; }

Update Sgd::build(const Variable& w, Parameters& state) const {
  std::optional<Variable> v;
  if (momentum != 0) v = make_buffer(state, "momentum_buffer", w);
  return [=, *this](const Tensor& grad, const UpdateContext& now) {
    Tensor g = decayed(grad, weight_decay, w);
    if (v) {
      v->set(momentum * *v + g);
      g = nesterov ? g + momentum * *v : v->value();
    }
    now.set(w, w - now.rate * g);
  };
}

Update Adam::build(const Variable& w, Parameters& state) const {
  check_rates(beta1, beta2);
  const Variable m = make_buffer(state, "exp_avg", w), v = make_squares(state, "exp_avg_sq", w);
  return [=, *this](const Tensor& grad, const UpdateContext& now) {
    adam_step(w, m, v, decayed(grad, weight_decay, w), now, beta1, beta2, eps, w);
  };
}

Update AdamW::build(const Variable& w, Parameters& state) const {
  check_rates(beta1, beta2);
  const Variable m = make_buffer(state, "exp_avg", w), v = make_squares(state, "exp_avg_sq", w);
  return [=, *this](const Tensor& grad, const UpdateContext& now) {
    const Tensor shrunk = weight_decay == 0 ? w.value() : w * (1 - now.rate * weight_decay);
    adam_step(w, m, v, grad, now, beta1, beta2, eps, shrunk);
  };
}

Update RmsProp::build(const Variable& w, Parameters& state) const {
  check_rate("alpha", alpha);
  const Variable s = make_squares(state, "square_avg", w);
  std::optional<Variable> a, b;
  if (centered) a = make_f32_buffer(state, "grad_avg", w);
  if (momentum != 0) b = make_buffer(state, "momentum_buffer", w);
  return [=, *this](const Tensor& grad, const UpdateContext& now) {
    const Tensor g = decayed(grad, weight_decay, w);
    s.set(alpha * s + (1 - alpha) * squared(g, s));
    Tensor spread = s;
    if (a) {
      a->set(alpha * *a + (1 - alpha) * g);
      spread = maximum(s - square(*a), 0.0);  // of equal gradients it is 0, which rounding makes less
    }
    Tensor step = g / (sqrt(spread) + eps);
    if (b) {
      b->set(momentum * *b + step);
      step = *b;
    }
    now.set(w, w - now.rate * step);
  };
}

Update Adagrad::build(const Variable& w, Parameters& state) const {
  const Variable s = make_squares(state, "sum", w, Init::constant(static_cast<float>(initial_sum)));
  return [=, *this](const Tensor& grad, const UpdateContext& now) {
    const Tensor g = decayed(grad, weight_decay, w);
    const Tensor rate = rate_decay == 0 ? now.rate : now.rate / (1 + (now.count - 1) * rate_decay);
    s.set(s + squared(g, s));
    now.set(w, w - rate * g / (sqrt(s) + eps));
  };
}

Update Adadelta::build(const Variable& w, Parameters& state) const {
  check_rate("rho", rho);
  const Variable s = make_squares(state, "square_avg", w), a = make_squares(state, "acc_delta", w);
  return [=, *this](const Tensor& grad, const UpdateContext& now) {
    const Tensor g = decayed(grad, weight_decay, w);
    s.set(rho * s + (1 - rho) * squared(g, s));
    const Tensor d = sqrt(a + eps) / sqrt(s + eps) * g;
    a.set(rho * a + (1 - rho) * square(d));
    now.set(w, w - now.rate * d);
  };
}

}  // namespace nixie
