// Hands an auxiliary output to the run.
#include "nixie/layers/auxiliary_loss.h"

namespace nixie {

Forward AuxiliaryLoss::build(const Shape&, Parameters&) const {
  return [loss = *this](const Tensor& x, const Pass& pass) {
    if (pass.training && pass.auxiliary) pass.auxiliary(x, loss);
    return x;
  };
}

}  // namespace nixie
