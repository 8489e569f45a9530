// How a net becomes a model.
#include "nixie/models/model.h"

#include <algorithm>

#include "nixie/core/base/wildcard.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

Shape without_batch(const Shape& shape) { return Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end())); }

}  // namespace

AnyModel::AnyModel() : AnyModel(Sequential{}) {}

AnyModel::AnyModel(const Sequential& layers)
    : kind_(Sequential::name), text_(layers.text()), layers_([layers] { return layers; }) {}

std::string field_text(const AnyModel& model) { return model.text(); }

Model::Model(const AnyModel& net, const Shape& input, std::uint64_t seed, Dtype floating)
    : parameters_(seed, floating), input_(input) {
  check(input.rank() >= 1, "model: input is a scalar, expected [N, ...]");
  forward_ = net.layers().build(input, parameters_);
}

Model Model::with_mirror_average() const {
  check(input_.rank() >= 3, "mirror_average: a sample is ", input_shape(), ", expected [channels, ..., width]");
  Model result = *this;
  result.forward_ = [forward = forward_](const Tensor& x, const Pass& pass) {
    if (pass.training) return forward(x, pass);
    const Tensor straight = forward(x, pass), mirrored = forward(flip(x, {-1}), pass);
    return (straight + (mirrored.rank() > 2 ? flip(mirrored, {-1}) : mirrored)) / 2;
  };
  return result;
}

Model Model::with_formats(const std::vector<FormatRule>& rules) const {
  Model result = *this;
  if (rules.empty()) return result;
  result.formats_.emplace(rules, forward_, input_, result.parameters_);
  result.forward_ = [forward = forward_, formats = *result.formats_](const Tensor& x, const Pass& pass) {
    const OperandScope scope(formats.rule(pass), formats.sums());
    return forward(x, pass);
  };
  return result;
}

Tensor Model::operator()(const Tensor& x, const Pass& pass) const { return forward_(x, pass); }

Shape Model::input_shape() const { return without_batch(input_); }
Shape Model::output_shape() const { return without_batch(nixie::output_shape(forward_, input_)); }

}  // namespace nixie
