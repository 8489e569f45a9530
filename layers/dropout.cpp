// Dropout's mask and its random stream.
#include "nixie/layers/dropout.h"

#include "nixie/core/base/random.h"

namespace nixie {

Forward Dropout::build(const Shape&, Parameters& parameters) const {
  return [rate = rate, purpose = parameters.prefix() + "dropout"](const Tensor& x, Pass& pass) {
    if (!pass.training || rate == 0) return x;
    const double keep = 1 - rate;
    if (keep == 0) return zeros_like(x);
    return x * bernoulli(x.shape(), keep, random_stream(pass.seed, purpose), pass.step) / keep;
  };
}

}  // namespace nixie
