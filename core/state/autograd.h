// Autograd: gradients of a scalar as new nodes of the same graph, so that they fuse and can be differentiated again.
#pragma once

#include "nixie/core/state/variable.h"

namespace nixie {

/// The gradient of a one-element loss with respect to each tensor, of its shape and dtype; zeros where the loss does
/// not depend on it. Throws if the loss has more elements or is not floating.
std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& wrt);
inline std::vector<Tensor> gradients(const Tensor& loss, std::initializer_list<Tensor> wrt) {
  return gradients(loss, std::vector<Tensor>(wrt));
}

struct Gradient {
  Variable parameter;
  Tensor value;
};
/// The same for Variables, with respect to the value that the loss was computed from: the present one if the loss
/// depends on it, else the newest one that it depends on, from before the Variable was set.
std::vector<Gradient> gradients(const Tensor& loss, const std::vector<Variable>& wrt);
inline std::vector<Gradient> gradients(const Tensor& loss, std::initializer_list<Variable> wrt) {
  return gradients(loss, std::vector<Variable>(wrt));
}
/// The same for the trainable parameters of a collection.
std::vector<Gradient> gradients(const Tensor& loss, const Parameters& parameters);

}  // namespace nixie
