// LossScale: keeps the gradients of a half-precision step inside f16's range.
#pragma once

#include <optional>

#include "nixie/core/base/fields.h"
#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/state/autograd.h"

namespace nixie {

/// The default scale of a precision: dynamic (0) if gradients are f16, else 1.
constexpr double loss_scale_of(PrecisionPolicy precision) {
  return precision == PrecisionPolicy::fp16 || precision == PrecisionPolicy::fp16_pure ? 0 : 1;
}

/// Scales that are normal f32 numbers, as are their reciprocals, by which gradients are multiplied.
inline constexpr Range kLossScales{.low = 1e-37, .high = 1e37};

struct LossScaleOptions {
  /// The factor of the loss; 0: dynamic. A dynamic scale halves after a step whose gradients are not all finite
  /// (that step changes nothing) and doubles after `growth_interval` good steps, as in PyTorch's GradScaler.
  double scale = loss_scale_of(default_precision());
  double initial = 65536;
  int growth_interval = 2000;
};

/// A u8 scalar: 1 if every element of every gradient is finite.
Tensor all_finite(const std::vector<Gradient>& gradients);

class LossScale {
 public:
  /// A dynamic scale keeps `loss_scale`, `good_steps` and `skipped_steps`
  /// in `state`. Throws if an option is out of its range.
  LossScale(const LossScaleOptions& options, const Parameters& state);

  /// The loss to differentiate.
  Tensor scaled(const Tensor& loss) const;
  /// The gradients of the loss from those of the scaled loss.
  std::vector<Gradient> unscaled(const std::vector<Gradient>& gradients) const;
  /// Call after the updates of a step's body: if a gradient is not finite, every Variable set so far keeps its old
  /// value. Adjusts a dynamic scale.
  void finish(const std::vector<Gradient>& gradients) const;

  bool is_dynamic() const { return scale_.has_value(); }
  /// The Variables of a dynamic scale.
  const Variable& scale() const { return *scale_; }
  const Variable& skipped() const { return *skipped_; }

 private:
  LossScaleOptions options_;
  std::optional<Variable> scale_, good_, skipped_;
};

}  // namespace nixie
