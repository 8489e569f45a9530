// ONNX's normalisations, softmax and losses.
#include <algorithm>

#include "nixie/layers/loss.h"
#include "nixie/tests/onnx/node.h"

namespace nixie::onnx_nodes {
namespace {

using Ints = std::vector<std::int64_t>;

Axes axes_from(const Tensor& x, int first) {
  const Axes all = all_axes(x.shape());
  return std::vector<int>(all.begin() + first, all.end());
}

Tensor per_channel(const Tensor& values, int rank) {
  Ints sizes(static_cast<std::size_t>(rank), 1);
  sizes[1] = -1;
  return reshape(values, sizes);
}

// Before opset 13 softmax was over all axes from one on.
Axes softmax_axes(const Node& node) {
  const bool flattens = node.opset() < 13;
  const int axis = node.in(0).shape().normal_axis(static_cast<int>(node.integer("axis", flattens ? 1 : -1)));
  return flattens ? axes_from(node.in(0), axis) : Axes{axis};
}

Results batch_normalization(const Node& node) {
  const Tensor& x = node.in(0);
  const double eps = node.number("epsilon", 1e-5), momentum = node.number("momentum", 0.9);
  const auto channel = [&](std::size_t input) { return per_channel(node.in(input), x.rank()); };
  if (!node.integer("training_mode", 0)) return {(x - channel(3)) / sqrt(channel(4) + eps) * channel(1) + channel(2)};
  Axes axes = axes_from(x, 2);
  axes.insert(axes.begin(), 0);
  const auto running = [&](std::size_t input, const Tensor& batch) {
    return node.in(input)*momentum + squeeze(batch, axes) * (1 - momentum);
  };
  return {standardize(x, axes, static_cast<float>(eps)) * channel(1) + channel(2), running(3, mean(x, axes)),
          running(4, variance(x, axes))};
}

Results instance_normalization(const Node& node) {
  const Tensor& x = node.in(0);
  return {standardize(x, axes_from(x, 2), static_cast<float>(node.number("epsilon", 1e-5))) *
              per_channel(node.in(1), x.rank()) +
          per_channel(node.in(2), x.rank())};
}

Results group_normalization(const Node& node) {
  const Tensor& x = node.in(0);
  const std::int64_t groups = node.integer("num_groups", 1);
  const Tensor grouped = reshape(x, Ints{x.shape()[0], groups, -1});
  Tensor y = standardize(grouped, {2}, static_cast<float>(node.number("epsilon", 1e-5)));
  const auto channel = [&](std::size_t input) {
    const Tensor& values = node.in(input);
    return node.opset() < 21 ? reshape(values, Ints{1, groups, 1}) : per_channel(values, x.rank());
  };
  if (node.opset() < 21) return {reshape(y * channel(1) + channel(2), x.shape())};
  return {reshape(y, x.shape()) * channel(1) + channel(2)};
}

Results layer_normalization(const Node& node) {
  const Tensor& x = node.in(0);
  const double eps = node.number("epsilon", 1e-5);
  const Axes axes = axes_from(x, x.shape().normal_axis(static_cast<int>(node.integer("axis", -1))));
  Tensor y = standardize(x, axes, static_cast<float>(eps)) * node.in(1);
  if (node.has(2)) y = y + node.in(2);
  return {y, mean(x, axes), rsqrt(variance(x, axes) + eps)};
}

Results rms_normalization(const Node& node) {
  const Tensor& x = node.in(0);
  const Axes axes = axes_from(x, x.shape().normal_axis(static_cast<int>(node.integer("axis", -1))));
  return {x * rsqrt(mean(square(x), axes) + node.number("epsilon", 1e-5)) * node.in(1)};
}

Results lp_normalization(const Node& node) {
  const Tensor& x = node.in(0);
  const int axis = static_cast<int>(node.integer("axis", -1));
  const Tensor length = node.integer("p", 2) == 1 ? sum(abs(x), {axis}) : norm(x, {axis});
  return {where(length == 0, 0, x / length)};
}

Results local_response(const Node& node) {
  return {local_response_norm(
      node.in(0), static_cast<int>(node.integer("size", 1)), static_cast<float>(node.number("alpha", 1e-4)),
      static_cast<float>(node.number("beta", 0.75)), static_cast<float>(node.number("bias", 1)))};
}

// -weight[label] x[label] for each position; positions with the ignored label weigh nothing.
Results likelihood_loss(const Tensor& scores, const Node& node) {
  const Tensor labels = node.in(1);
  const Tensor kept = node.has("ignore_index") ? labels != node.integer("ignore_index", 0) : labels == labels;
  const Tensor safe = where(kept, labels, 0);
  Tensor weight = cast(kept, scores.dtype());
  if (node.has(2)) weight = weight * take(node.in(2), safe);
  const Tensor losses = -squeeze(take_along_axis(scores, expand_dims(safe, {1}), 1), {1}) * weight;
  const std::string reduction = node.text("reduction", "mean");
  if (reduction == "none") return {losses};
  if (reduction == "sum") return {reshape(sum(losses), Ints{})};
  return {reshape(sum(losses) / sum(weight), Ints{})};
}

// The mean is the library's loss.
Results cross_entropy_loss(const Node& node) {
  const Tensor& x = node.in(0);
  const Tensor logs = log_softmax(x, {1});
  if (node.text("reduction", "mean") != "mean") return {likelihood_loss(logs, node)[0], logs};
  CrossEntropy loss;
  if (node.has(2)) loss.class_weights = node.in(2).to_vector<double>();
  if (node.has("ignore_index")) loss.ignore_index = static_cast<int>(node.integer("ignore_index", 0));
  return {loss(x, node.in(1)), logs};
}

Results dropout(const Node& node) {
  const bool trains = node.has(2) && node.in(2).item() != 0;
  const double ratio = node.has(1) ? node.in(1).item() : 0.5;
  if (trains && ratio != 0) throw Outside{"random numbers of another generator"};
  return {node.in(0), ones(node.in(0).shape(), Dtype::boolean)};
}

}  // namespace

void add_normalisations(Functions& functions) {
  functions["Softmax"] = [](const Node& node) { return Results{softmax(node.in(0), softmax_axes(node))}; };
  functions["LogSoftmax"] = [](const Node& node) { return Results{log_softmax(node.in(0), softmax_axes(node))}; };
  functions["BatchNormalization"] = batch_normalization;
  functions["InstanceNormalization"] = instance_normalization;
  functions["GroupNormalization"] = group_normalization;
  functions["LayerNormalization"] = layer_normalization;
  functions["RMSNormalization"] = rms_normalization;
  functions["LpNormalization"] = lp_normalization;
  functions["LRN"] = local_response;
  functions["MeanVarianceNormalization"] = [](const Node& node) {
    const Axes axes = to_axes(node.ints("axes", {0, 2, 3}));
    return Results{standardize(node.in(0), axes, 1e-9f)};
  };
  functions["NegativeLogLikelihoodLoss"] = [](const Node& node) { return likelihood_loss(node.in(0), node); };
  functions["SoftmaxCrossEntropyLoss"] = cross_entropy_loss;
  functions["Dropout"] = dropout;
  for (const char* name : {"Bernoulli", "RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike"})
    functions[name] = [](const Node&) -> Results { throw Outside{"random numbers of another generator"}; };
}

}  // namespace nixie::onnx_nodes
