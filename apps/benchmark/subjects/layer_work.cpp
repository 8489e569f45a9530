// A contraction of a net's graph is rebuilt on Variables.
#include "nixie/apps/benchmark/subjects/layer_work.h"

#include "nixie/apps/benchmark/subjects/distributions.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/core/ops/ops.h"

namespace nixie::benchmark {
namespace {

// Variables of three axes or more are stored as images and filters are, but steps have products' matrices one after
// the other: one matrix of all their rows.
Shape stored_as(const Tensor& node, const Shape& shape) {
  if (!std::holds_alternative<Matmul>(node.node().op) || shape.rank() < 3) return shape;
  const std::int64_t columns = shape[shape.rank() - 1];
  return {shape.size() / columns, columns};
}

}  // namespace

LayerWork::LayerWork(Backend& backend, const Tensor& node, const PrecisionTraits& precision)
    : backend_(backend),
      node_(node),
      precision_(precision),
      a_(side(node.inputs()[0], "a")),
      b_(side(node.inputs()[1], "b")),
      result_(result_operand("result", precision.data, stored_as(node, node.shape()))),
      step_(
          backend,
          [this](const Inputs&) {
            const auto read = [](const Side& side) {
              const Tensor x = reshape(side.variable.value(), side.shape);
              return cast(side.transposed ? transpose(x, 0, 1) : x, Dtype::f32);
            };
            const Tensor y = Tensor::make(node_.node().op, {read(a_), read(b_)}, node_.shape(), Dtype::f32);
            result_.set(reshape(cast(y, precision_.data), result_.shape()));
            return Outputs{};
          },
          precision.policy) {}

// A weight is stored once and read transposed.
LayerWork::Side LayerWork::side(const Tensor& x, const char* name) const {
  const bool transposed = std::holds_alternative<Permute>(x.node().op);
  const Shape shape = transposed ? x.inputs()[0].shape() : x.shape(), stored = stored_as(node_, shape);
  check(!transposed || shape.rank() == 2, "an operand of shape ", shape,
        " is read in another order; only matrices are");
  const auto values = [stored, dtype = precision_.data, name] { return host_noise(stored, dtype, name); };
  return {shape, transposed, operand(name, precision_.data, stored, values)};
}

LayerCheck LayerWork::compare(std::int64_t samples) {
  step_({});
  const auto elements = [&](const Side& side) {
    return rounded(side.variable.array(), precision_.operands, side.transposed);
  };
  LayerCheck check{.positions = sampled_positions(node_.shape().size(), samples)};
  check.expected = reference_elements(node_, elements(a_), elements(b_), check.positions);
  check.deviation = deviation_at(result_.array(), check.positions, check.expected, precision_.rounding);
  return check;
}

Timing LayerWork::time(int runs) {
  return time_for(backend_, [&] { step_({}); }, runs, {.least_ms = 0.5, .most = 50, .warm_seconds = 0.02});
}

std::vector<ContractionPeer::Operand> LayerWork::operands() {
  const auto given = [](const Side& side) {
    return ContractionPeer::Operand{side.variable.array().reshaped(side.shape), side.transposed};
  };
  return {given(a_), given(b_)};
}

double LayerWork::bytes() const {
  return static_cast<double>(size_of(precision_.data)) *
         static_cast<double>(a_.shape.size() + b_.shape.size() + node_.shape().size());
}

const char* role_name(ConvRole role) {
  return role == ConvRole::output ? "output" : role == ConvRole::input_grad ? "input_grad" : "filter_grad";
}

nlohmann::json contraction_request(const Tensor& node) {
  const auto* conv = std::get_if<Conv>(&node.node().op);
  if (!conv) return {{"op", "matmul"}};
  return {{"op", "conv"},           {"role", role_name(conv->role)}, {"stride", conv->stride},       {"pad", conv->pad},
          {"groups", conv->groups}, {"dilation", conv->dilation},    {"shape", node.shape().sizes()}};
}

}  // namespace nixie::benchmark
