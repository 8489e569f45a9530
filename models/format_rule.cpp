// Finds the rule of a layer and rounds an operand by it.
#include "nixie/models/format_rule.h"

#include <map>
#include <memory>

#include "nixie/core/base/random.h"
#include "nixie/core/base/wildcard.h"
#include "nixie/core/ops/formats.h"

namespace nixie {
namespace {

const std::string& format_of(const FormatRule& rule, OperandRole role) {
  if (role == OperandRole::weights) return rule.weights;
  return role == OperandRole::activations ? rule.activations : rule.gradients;
}

}  // namespace

Scaling scaling_of(const FormatRule& rule, const Tensor& x, OperandRole role) {
  const ScaleGroup group = scale_group_named(rule.scale);
  const int channel = role == OperandRole::weights ? 0 : 1;
  const int axis = group == ScaleGroup::channel ? channel : 1;
  return {.group = x.rank() > axis ? group : ScaleGroup::tensor, .axis = axis, .block = rule.block};
}

OperandRule operand_rule(const std::vector<FormatRule>& rules, const Pass& pass) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Scope scope(fmt::format("formats.{}", i));
    for (const OperandRole role : {OperandRole::weights, OperandRole::activations, OperandRole::gradients})
      if (const std::string& name = format_of(rules[i], role); !name.empty()) format_named(name);
  }
  // A layer may have several products: each operand has random numbers of its own.
  const auto drawn = std::make_shared<std::map<std::string, int>>();
  return [=, step = pass.step, seed = pass.seed, training = pass.training](const Tensor& x, OperandRole role,
                                                                           const std::string& layer) {
    for (const FormatRule& rule : rules) {
      if (!matches_wildcard(layer, rule.layers)) continue;
      const std::string& name = format_of(rule, role);
      if (name.empty() || !is_floating(x.dtype())) return x;
      const Rounding rounding = training ? rounding_named(rule.rounding) : Rounding::nearest;
      Tensor random;
      if (rounding == Rounding::stochastic) {
        const std::string purpose = fmt::format("{}/{}", layer, to_string(role));
        const int index = (*drawn)[purpose]++;
        random = uniform(x.shape(), random_stream(seed, fmt::format("{}.{}", purpose, index)), step);
      }
      return scaled_quantized(x, format_named(name), scaling_of(rule, x, role), rounding, random);
    }
    return x;
  };
}

}  // namespace nixie
