// Finds the rule of a layer and rounds an operand by it.
#include "nixie/models/format_rule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/base/random.h"
#include "nixie/core/base/wildcard.h"

namespace nixie {
namespace {

constexpr std::int64_t kSteps = 16;  // that a history holds
constexpr OperandRole kRoles[] = {OperandRole::weights, OperandRole::activations, OperandRole::gradients};

Sums sums_of(const FormatRule& rule) {
  return rule.sums.format.empty() ? Sums() : sums_in(format_named(rule.sums.format), rule.sums.every);
}

const std::string& format_of(const FormatRule& rule, OperandRole role) {
  if (role == OperandRole::weights) return rule.weights;
  return role == OperandRole::activations ? rule.activations : rule.gradients;
}

/// The operands of a net's products that have this role in this layer.
using Counts = std::map<std::pair<std::string, OperandRole>, int>;

/// A layer may have several products, so operands are numbered.
std::string numbered(const std::string& layer, OperandRole role, int number) {
  return fmt::format("{}.{}.{}", layer, to_string(role), number);
}

/// The operands of a run, and the layers in the order in which they came. A product has two operands and one gradient.
Counts operands_of(const Forward& net, const Shape& input, std::vector<std::string>& layers) {
  Counts counts;
  std::map<std::string, int> operands;
  Trace trace;
  const OperandScope scope([&](const Tensor& x, OperandRole role, const std::string& layer) {
    if (operands[layer]++ == 0) layers.push_back(layer);
    ++counts[{layer, role}];
    counts[{layer, OperandRole::gradients}] = operands[layer] / 2;
    return x;
  });
  Pass pass;
  net(placeholder(input), pass);
  return counts;
}

/// x rounded by the scale of the largest magnitudes that the steps before had; in training this step's takes the place
/// of the oldest.
Tensor quantized_by_history(const Tensor& x, const Variable& history, const Pass& pass, const Format& format,
                            Rounding rounding, const Tensor& random) {
  const Tensor before = max(Tensor(history));
  if (pass.training) {
    const Tensor now = max(abs(cast(stop_gradient(x), Dtype::f32)));
    const Tensor place = coordinate({kSteps}, 0) == pass.step % kSteps;
    history.set(where(place, where(is_finite(now), now, before), history));
  }
  return quantized_by(x, scale_for(before, format), format, rounding, random);
}

}  // namespace

Scaling scaling_of(const FormatRule& rule, const Tensor& x, OperandRole role) {
  const ScaleGroup group = rule.scale == "history" ? ScaleGroup::tensor : scale_group_named(rule.scale);
  const int channel = role == OperandRole::weights ? 0 : 1;
  const int axis = group == ScaleGroup::channel ? channel : 1;
  return {.group = x.rank() > axis ? group : ScaleGroup::tensor, .axis = axis, .block = rule.block};
}

OperandFormats::OperandFormats(const std::vector<FormatRule>& rules, const Forward& net, const Shape& input,
                               Parameters& parameters)
    : rules_(rules) {
  std::vector<std::string> layers;
  const Counts counts = operands_of(net, input, layers);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Scope scope(fmt::format("formats.{}", i));
    check_fields(rules[i]);
    for (const OperandRole role : kRoles)
      if (const std::string& format = format_of(rules[i], role); !format.empty()) format_named(format);
    sums_of(rules[i]);
    const bool any =
        std::ranges::any_of(layers, [&](const std::string& layer) { return matches_wildcard(layer, rules[i].layers); });
    check(any, field_text(rules[i].layers), " holds no layer with a product; these are ",
          fmt::format("{}", fmt::join(layers, ", ")));
  }
  for (const auto& [operand, count] : counts) {
    const FormatRule* rule = rule_of(operand.first);
    if (!rule || rule->scale != "history" || format_of(*rule, operand.second).empty()) continue;
    for (int i = 0; i < count; ++i) {
      const std::string name = numbered(operand.first, operand.second, i);
      const std::optional<Variable> made = parameters.find("formats." + name);
      histories_.emplace(name,
                         made ? *made : parameters.state("formats." + name, {kSteps}, {}, Dtype::f32, kNotNegative));
    }
  }
}

const FormatRule* OperandFormats::rule_of(const std::string& layer) const {
  const auto found =
      std::ranges::find_if(rules_, [&](const FormatRule& rule) { return matches_wildcard(layer, rule.layers); });
  return found == rules_.end() ? nullptr : &*found;
}

OperandRule OperandFormats::rule(const Pass& pass) const {
  const auto met = std::make_shared<Counts>();
  const Pass now{.training = pass.training, .step = pass.step, .seed = pass.seed};
  return
      [*this, met, now, outer = OperandScope::rule()](const Tensor& given, OperandRole role, const std::string& layer) {
        const Tensor x = outer ? outer(given, role, layer) : given;
        const FormatRule* rule = rule_of(layer);
        if (!rule || format_of(*rule, role).empty() || !is_floating(x.dtype())) return x;
        const std::string name = numbered(layer, role, (*met)[{layer, role}]++);
        const Format format = format_named(format_of(*rule, role));
        const Rounding rounding = now.training ? rounding_named(rule->rounding) : Rounding::nearest;
        const Tensor random =
            rounding == Rounding::stochastic ? uniform(x.shape(), random_stream(now.seed, name), now.step) : Tensor{};
        if (rule->scale == "history")
          return quantized_by_history(x, histories_.at(name), now, format, rounding, random);
        return scaled_quantized(x, format, scaling_of(*rule, x, role), rounding, random);
      };
}

SumsRule OperandFormats::sums() const {
  return [*this](const std::string& layer) {
    const FormatRule* rule = rule_of(layer);
    return rule ? sums_of(*rule) : Sums();
  };
}

Tensor OperandFormats::saturated(const Tensor& x, OperandRole role, const std::string& layer, int number) const {
  const FormatRule* rule = rule_of(layer);
  if (!rule || format_of(*rule, role).empty()) return {};
  const Format format = format_named(format_of(*rule, role));
  if (rule->scale != "history") return saturates(x, format, scaling_of(*rule, x, role));
  const Tensor before = max(Tensor(histories_.at(numbered(layer, role, number))));
  return abs(cast(x, Dtype::f32)) > scale_for(before, format) * format.largest;
}

}  // namespace nixie
