// Sums and products of per-channel Variables are matched from the result back to the image.
#include "nixie/models/io/onnx/match.h"

#include "nixie/core/ops/elementwise.h"

namespace nixie {
namespace {

bool is_map(const Tensor& x, const char* name) {
  const auto* map = as<Map>(x);
  return map && map->op->name == name;
}

/// The Variable behind views that leave its elements in order.
VariablePointer variable_of(Tensor x) {
  while (as<Reshape>(x) || as<Expand>(x)) x = x.inputs()[0];
  const auto* input = as<Input>(x);
  return input ? input->variable : nullptr;
}

/// One number per channel of [N, C, ...] that a Variable [C] holds.
VariablePointer per_channel(const Tensor& x, const Shape& images) {
  const auto variable = variable_of(x);
  const bool fits = variable && images.rank() >= 2 && variable->shape == Shape{images[1]} && x.shape() == images;
  return fits ? variable : nullptr;
}

}  // namespace

std::optional<BatchNormMatch> match_batch_norm(const Tensor& y) {
  BatchNormMatch match;
  Tensor core = y;
  if (is_map(core, "add") && is_map(core.inputs()[0], "mul")) {
    match.bias = per_channel(core.inputs()[1], y.shape());
    match.weight = per_channel(core.inputs()[0].inputs()[1], y.shape());
    if (!match.bias || !match.weight) return std::nullopt;
    core = core.inputs()[0].inputs()[0];
  }
  if (!is_map(core, "mul") || !is_map(core.inputs()[0], "sub")) return std::nullopt;
  match.x = core.inputs()[0].inputs()[0];
  match.mean = per_channel(core.inputs()[0].inputs()[1], y.shape());
  Tensor root = core.inputs()[1];
  while (as<Reshape>(root) || as<Expand>(root)) root = root.inputs()[0];
  if (!match.mean || !is_map(root, "rsqrt") || !is_map(root.inputs()[0], "add")) return std::nullopt;
  const Tensor sum = root.inputs()[0];
  const auto* eps = as<Constant>(sum.inputs()[1]);
  match.var = variable_of(sum.inputs()[0]);
  if (!eps || !match.var || match.var->shape != match.mean->shape) return std::nullopt;
  match.eps = eps->value;
  return match;
}

std::optional<ProductMatch> match_product(const Tensor& y) {
  ProductMatch match{y, nullptr, nullptr};
  if (is_map(y, "add")) {
    match.product = y.inputs()[0];
    match.bias = per_channel(y.inputs()[1], y.shape());
    if (!match.bias) return std::nullopt;
  }
  if (as<Conv>(match.product)) {
    match.weight = variable_of(match.product.inputs()[1]);
  } else if (as<Matmul>(match.product) && match.product.rank() == 2) {
    const Tensor& right = match.product.inputs()[1];
    if (as<Permute>(right)) match.weight = variable_of(right.inputs()[0]);
  }
  return match.weight ? std::optional(match) : std::nullopt;
}

}  // namespace nixie
