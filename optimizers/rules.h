// The update rules: stochastic gradient descent and its adaptive relatives, with PyTorch's formulas, defaults and
// buffer names, so that states can be exchanged. In the formulas g is the gradient plus weight_decay * w, and buffers
// start at zero. `usual_rate` is the learning rate where no schedule gives one.
#pragma once

#include "nixie/optimizers/update_rule.h"

namespace nixie {

/// v = momentum v + g;  w = w - rate v, or with Nesterov's momentum w - rate (g + momentum v). Buffer:
/// momentum_buffer (none without momentum).
struct Sgd {
  double momentum = 0.9, weight_decay = 0;
  bool nesterov = false;

  static constexpr const char* name = "sgd";
  static constexpr double usual_rate = 0.01;
  static constexpr auto fields() {
    return field_list(field("momentum", &Sgd::momentum, "fraction of the last step that is kept", {0, 1}),
                      field("weight_decay", &Sgd::weight_decay, "added to the gradient, times the weight", {0}),
                      field("nesterov", &Sgd::nesterov, "Nesterov's momentum"));
  }
  Update build(const Variable& w, Parameters& state) const;
};

/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
/// w = w - rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps) (Kingma and Ba 2015).
/// Buffers: exp_avg, exp_avg_sq.
struct Adam {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;

  static constexpr const char* name = "adam";
  static constexpr double usual_rate = 0.001;
  static constexpr auto fields() {
    return field_list(field("beta1", &Adam::beta1, "decay rate of the mean gradient", {0, 1}),
                      field("beta2", &Adam::beta2, "decay rate of the mean squared gradient", {0, 1}),
                      field("eps", &Adam::eps, "added to the square root", {0}),
                      field("weight_decay", &Adam::weight_decay, "added to the gradient, times the weight", {0}));
  }
  Update build(const Variable& w, Parameters& state) const;
};

/// Adam with decoupled weight decay: w = (1 - rate weight_decay) w first (Loshchilov and
/// Hutter 2019).
struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;

  static constexpr const char* name = "adamw";
  static constexpr double usual_rate = 0.001;
  static constexpr auto fields() {
    return field_list(field("beta1", &AdamW::beta1, "decay rate of the mean gradient", {0, 1}),
                      field("beta2", &AdamW::beta2, "decay rate of the mean squared gradient", {0, 1}),
                      field("eps", &AdamW::eps, "added to the square root", {0}),
                      field("weight_decay", &AdamW::weight_decay, "decoupled weight decay", {0}));
  }
  Update build(const Variable& w, Parameters& state) const;
};

/// s = alpha s + (1 - alpha) g^2;  d = g / (sqrt(s) + eps), or centered g / (sqrt(s - a^2) + eps) with
/// a = alpha a + (1 - alpha) g;  w = w - rate d, or with momentum b = momentum b + d;  w = w - rate b.
/// Buffers: square_avg; grad_avg and momentum_buffer if they are used.
struct RmsProp {
  double alpha = 0.99, eps = 1e-8, momentum = 0, weight_decay = 0;
  bool centered = false;

  static constexpr const char* name = "rmsprop";
  static constexpr double usual_rate = 0.01;
  static constexpr auto fields() {
    return field_list(field("alpha", &RmsProp::alpha, "decay rate of the mean squared gradient", {0, 1}),
                      field("eps", &RmsProp::eps, "added to the square root", {0}),
                      field("momentum", &RmsProp::momentum, "fraction of the last step that is kept", {0, 1}),
                      field("weight_decay", &RmsProp::weight_decay, "added to the gradient, times the weight", {0}),
                      field("centered", &RmsProp::centered, "divides by the deviation, not the root mean square"));
  }
  Update build(const Variable& w, Parameters& state) const;
};

/// s = s + g^2;  w = w - rate / (1 + (t - 1) rate_decay) g / (sqrt(s) + eps) (Duchi et al. 2011). Buffer: sum.
struct Adagrad {
  double rate_decay = 0, initial_sum = 0, eps = 1e-10, weight_decay = 0;

  static constexpr const char* name = "adagrad";
  static constexpr double usual_rate = 0.01;
  static constexpr auto fields() {
    return field_list(field("rate_decay", &Adagrad::rate_decay, "decay of the rate with each update", {0}),
                      field("initial_sum", &Adagrad::initial_sum, "initial sum of squared gradients", {0}),
                      field("eps", &Adagrad::eps, "added to the square root", {0}),
                      field("weight_decay", &Adagrad::weight_decay, "added to the gradient, times the weight", {0}));
  }
  Update build(const Variable& w, Parameters& state) const;
};

/// s = rho s + (1 - rho) g^2;  d = sqrt(a + eps) / sqrt(s + eps) g;  a = rho a + (1 - rho) d^2;  w = w - rate d (Zeiler
/// 2012; his rate is 1). Buffers: square_avg, acc_delta.
struct Adadelta {
  double rho = 0.9, eps = 1e-6, weight_decay = 0;

  static constexpr const char* name = "adadelta";
  static constexpr double usual_rate = 1;
  static constexpr auto fields() {
    return field_list(field("rho", &Adadelta::rho, "decay rate of the mean squares", {0, 1}),
                      field("eps", &Adadelta::eps, "added under the square roots", {0}),
                      field("weight_decay", &Adadelta::weight_decay, "added to the gradient, times the weight", {0}));
  }
  Update build(const Variable& w, Parameters& state) const;
};

using AllOptimizers = Types<Sgd, Adam, AdamW, RmsProp, Adagrad, Adadelta>;

}  // namespace nixie
