// Update rule: the update of one parameter, built from an optimiser's options; and AnyOptimizer, any such options.
//
//   struct PlainDescent {
//     double weight_decay = 0;
//     static constexpr const char* name = "plain_descent";
//     static constexpr auto fields() { return field_list(field("weight_decay", &PlainDescent::weight_decay, "..")); }
//     Update build(const Variable& w, Parameters&) const {
//       return [=, *this](const Tensor& g, const UpdateContext& now) { now.set(w, w - now.rate * (g + weight_decay *
//       w)); };
//     }
//   };
#pragma once

#include <functional>
#include <string>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/variable.h"

namespace nixie {

/// The scalars of an update, the same for all parameters of a group; f32, rank 0.
struct UpdateContext {
  Tensor rate;   ///< learning rate
  Tensor count;  ///< updates so far, this one included: Adam's t
  /// The new value of a parameter as it is kept, if it is kept in a format of its own; may be empty.
  std::function<Tensor(const Variable& w, const Tensor& value)> rounded = {};

  /// Sets a parameter. A rule's own buffers are set directly.
  void set(const Variable& w, const Tensor& value) const { w.set(rounded ? rounded(w, value) : value); }
};

/// Sets a parameter and its buffers. Its formulas use only tensors of the parameter's shape and scalars, so that a
/// backend runs it as one kernel.
using Update = std::function<void(const Tensor& grad, const UpdateContext& now)>;

/// A buffer of the parameter's shape and type. `state` is scoped
/// to the parameter: the buffer's name is `<parameter>.<name>`.
inline Variable make_buffer(const Parameters& state, const char* name, const Variable& parameter, Init init = {}) {
  return state.state(name, parameter.shape(), init, parameter.dtype());
}

/// The options of an update rule.
template <class T>
concept UpdateRule = Options<T> && requires(const T& rule, T& changed, const Variable& w, Parameters& state) {
  { rule.build(w, state) } -> std::convertible_to<Update>;
  changed.weight_decay *= 1.0;  // scaled by a parameter group
};

/// Any update rule, as a value.
class AnyOptimizer {
 public:
  /// Sgd with its defaults.
  AnyOptimizer();
  AnyOptimizer(const AnyOptimizer&) = default;  // no move, so that an AnyOptimizer always has its rule
  AnyOptimizer& operator=(const AnyOptimizer&) = default;
  template <UpdateRule T>
  AnyOptimizer(const T& rule)
      : kind_(T::name),
        text_(fields_text(rule)),
        usual_rate_(usual_rate_of<T>()),
        build_([rule](const Variable& w, Parameters& state, double weight_decay_factor) {
          check_fields(rule);
          T scaled = rule;
          scaled.weight_decay *= weight_decay_factor;
          return scaled.build(w, state);
        }) {}

  /// `sgd`
  const std::string& kind() const { return kind_; }
  /// The learning rate where no schedule gives one: the rule's `usual_rate`, 0.01 where it names none.
  double usual_rate() const { return usual_rate_; }
  /// `sgd: {momentum: 0.9, ...}`
  std::string text() const { return kind_ + ": " + text_; }
  /// The update of a parameter, with its buffers in `state` and its factor of the rule's weight decay.
  Update build(const Variable& w, Parameters& state, double weight_decay_factor = 1) const {
    return build_(w, state, weight_decay_factor);
  }

 private:
  template <class T>
  static constexpr double usual_rate_of() {
    if constexpr (requires { T::usual_rate; }) return T::usual_rate;
    return 0.01;
  }

  std::string kind_, text_;
  double usual_rate_;
  std::function<Update(const Variable&, Parameters&, double)> build_;
};
std::string field_text(const AnyOptimizer& optimizer);

}  // namespace nixie
