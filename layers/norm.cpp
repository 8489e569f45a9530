// Batch normalisation and its running statistics; local response normalisation.
#include "nixie/layers/norm.h"

namespace nixie {
namespace {

struct BatchNormState {
  std::optional<Variable> weight, bias;
  Variable running_mean, running_var;
};

// The batch's statistics, [1, C, 1...]; sets the running ones. The arithmetic is done in this shape, so that it fuses
// with the reductions.
std::pair<Tensor, Tensor> batch_statistics(const Tensor& x, double momentum, const BatchNormState& state,
                                           const std::vector<std::int64_t>& per_channel) {
  Axes axes = all_axes(x.shape());
  axes.erase(axes.begin() + 1);
  const std::int64_t channels = x.shape()[1], values = channels == 0 ? 0 : x.shape().size() / channels;
  const auto n = static_cast<double>(values);
  check(n > 1, "input is ", x.shape(), ": training needs more than one value per channel");
  const Tensor batch_mean = mean(x, axes), batch_var = variance(x, axes);
  auto keep = [&](const Variable& running, const Tensor& batch) {
    const Tensor next = (1 - momentum) * reshape(running, per_channel) + momentum * stop_gradient(batch);
    running.set(reshape(next, running.shape()));
  };
  keep(state.running_mean, batch_mean);
  keep(state.running_var, batch_var * (n / (n - 1)));
  return {batch_mean, batch_var};
}

}  // namespace

Forward BatchNorm::build(const Shape& in, Parameters& parameters) const {
  auto check_channels = [](const Shape& shape, std::int64_t channels) {
    check(shape.rank() >= 2 && (channels == 0 || shape[1] == channels), "input is ", shape, ", expected [N, ",
          channels == 0 ? "C" : std::to_string(channels), ", ...]");
  };
  check_channels(in, 0);
  const Shape channels{in[1]};
  std::optional<Variable> weight, bias;
  if (affine) {
    weight = parameters.make("weight", channels, init);
    bias = parameters.make("bias", channels, bias_init);
  }
  const BatchNormState state{weight, bias, parameters.state("running_mean", channels),
                             parameters.state("running_var", channels, Init::constant(1), Dtype::f32, kNotNegative)};
  return [=, eps = eps, momentum = momentum](const Tensor& x, const Pass& pass) {
    check_channels(x.shape(), channels[0]);
    std::vector<std::int64_t> per_channel(static_cast<std::size_t>(x.rank()), 1);
    per_channel[1] = channels[0];
    const auto [center, var] =
        pass.training ? batch_statistics(x, momentum, state, per_channel)
                      : std::pair{reshape(state.running_mean, per_channel), reshape(state.running_var, per_channel)};
    const Tensor y = (x - center) * rsqrt(var + eps);
    return state.weight ? y * reshape(*state.weight, per_channel) + reshape(*state.bias, per_channel) : y;
  };
}

Forward Lrn::build(const Shape& in, Parameters&) const {
  check(in.rank() >= 2, "input is ", in, ", expected [N, C, ...]");
  return [*this](const Tensor& x, const Pass&) { return local_response_norm(x, size, alpha, beta, bias); };
}

}  // namespace nixie
