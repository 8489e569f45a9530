// Builds SqueezeExcite from a list of layers.
#include "nixie/layers/squeeze_excite.h"

#include "nixie/layers/activation.h"
#include "nixie/layers/conv.h"
#include "nixie/layers/pool.h"
#include "nixie/layers/sequential.h"

namespace nixie {
namespace {

/// The activation without options that has this name.
AnyLayer function_named(const std::string& word) {
  AnyLayer found;
  Types<Relu, Silu, HardSwish, Gelu, Tanh, Sigmoid, HardSigmoid>::for_each([&]<class T>() {
    if (word == T::name) found = T{};
  });
  return found;
}

AnyLayer pointwise(int spatial, int out) {
  if (spatial == 1) return Conv1d{.out = out, .kernel = 1};
  if (spatial == 2) return Conv2d{.out = out, .kernel = 1};
  return Conv3d{.out = out, .kernel = 1};
}

}  // namespace

Forward SqueezeExcite::build(const Shape& in, Parameters& parameters) const {
  check(in.rank() >= 3 && in.rank() <= 5, "input is ", in, ", expected [N, C, spatial...]");
  const int spatial = in.rank() - 2;
  const Sequential gates{GlobalAvgPool{},
                         {"fc1", pointwise(spatial, squeeze)},
                         function_named(activation),
                         {"fc2", pointwise(spatial, static_cast<int>(in[1]))},
                         function_named(gate)};
  return [scale = gates.build(in, parameters)](const Tensor& x, const Pass& pass) { return x * scale(x, pass); };
}

}  // namespace nixie
