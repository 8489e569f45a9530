// A composite of layers.
#include "nixie/layers/squeeze_excite.h"

#include "nixie/layers/activation.h"
#include "nixie/layers/conv.h"
#include "nixie/layers/pool.h"
#include "nixie/layers/sequential.h"

namespace nixie {

Forward SqueezeExcite::build(const Shape& in, Parameters& parameters) const {
  check_input(in, 2);
  const Sequential gate{GlobalAvgPool{},
                        {"fc1", Conv2d{.out = squeeze, .kernel = 1}},
                        Relu{},
                        {"fc2", Conv2d{.out = static_cast<int>(in[1]), .kernel = 1}},
                        Sigmoid{}};
  return [scale = gate.build(in, parameters)](const Tensor& x, Pass& pass) { return x * scale(x, pass); };
}

}  // namespace nixie
