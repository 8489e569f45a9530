// How a net becomes a model.
#include "nixie/models/model.h"

namespace nixie {
namespace {

Shape without_batch(const Shape& shape) { return Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end())); }

}  // namespace

std::string field_text(const AnyModel& model) { return model.text(); }

Model::Model(const AnyModel& net, const Shape& input, std::uint64_t seed, Dtype floating)
    : parameters_(seed, floating), input_(input) {
  check(input.rank() >= 1, "model: input is a scalar, expected [N, ...]");
  forward_ = net.layers().build(input, parameters_);
}

Tensor Model::operator()(const Tensor& x, Pass& pass) const { return forward_(x, pass); }

Shape Model::input_shape() const { return without_batch(input_); }
Shape Model::output_shape() const { return without_batch(nixie::output_shape(forward_, input_)); }

}  // namespace nixie
