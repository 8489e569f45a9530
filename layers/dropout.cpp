// Dropout's mask and its random stream.
#include "nixie/layers/dropout.h"

#include "nixie/core/base/random.h"

namespace nixie {

namespace {

/// The first `axes` sizes of a shape, and 1 for the others.
Shape leading(const Shape& in, int axes) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(in.rank()), 1);
  std::copy(in.begin(), in.begin() + axes, sizes.begin());
  return Shape(std::move(sizes));
}

/// `mask_shape` gives the shape of the mask for an input's.
Forward drop(double rate, const Parameters& parameters, Shape (*mask_shape)(const Shape&)) {
  return [=, purpose = parameters.prefix() + "dropout"](const Tensor& x, const Pass& pass) {
    if (!pass.training || rate == 0) return x;
    const double keep = 1 - rate;
    if (keep == 0) return zeros_like(x);
    const Shape shape = mask_shape(x.shape());
    return x * bernoulli(shape, keep, random_stream(pass.seed, purpose), pass.step, pass.first_of(shape)) / keep;
  };
}

}  // namespace

Forward Dropout::build(const Shape&, Parameters& parameters) const {
  return drop(rate, parameters, [](const Shape& in) { return in; });
}

Forward Dropout2d::build(const Shape& in, Parameters& parameters) const {
  check(in.rank() >= 2, "input is ", in, ", expected [N, C, ...]");
  return drop(rate, parameters, [](const Shape& in) { return leading(in, 2); });
}

Forward DropPath::build(const Shape&, Parameters& parameters) const {
  return drop(rate, parameters, [](const Shape& in) { return leading(in, 1); });
}

}  // namespace nixie
