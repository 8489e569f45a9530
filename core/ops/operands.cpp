// The rule in force, which of a product's operands are weights, gradients that follow the rule, and scaled operands.
#include "nixie/core/ops/operands.h"

#include <unordered_set>
#include <vector>

#include "nixie/core/graph/storage.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

thread_local const OperandScope* innermost = nullptr;

/// Whether x is computed from Variables and numbers alone.
bool is_weight(const Tensor& x) {
  bool any = false;
  std::vector<const Node*> stack{x.id()};
  std::unordered_set<const Node*> visited;
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!visited.insert(node).second) continue;
    if (is_a<Random>(node->op)) return false;
    if (const auto* input = std::get_if<Input>(&node->op)) {
      if (!input->variable && !(input->storage && input->storage->of_variable())) return false;
      any = true;
    }
    for (const Tensor& each : node->inputs) stack.push_back(each.id());
  }
  return any;
}

const Elementwise scaled_op{"scaled", [](auto x, auto scale) { return x * scale; },
                            [](const Tensor& g, const Tensor&, const Tensor& x, const Tensor& scale) {
                              return Gradients{g * scale, g * x};
                            },
                            ElementwiseTraits{.is_listed = false}};

}  // namespace

std::string_view to_string(OperandRole role) {
  constexpr std::string_view kNames[] = {"weights", "activations", "gradients"};
  return kNames[static_cast<std::size_t>(role)];
}

OperandScope::OperandScope(OperandRule rule, SumsRule sums)
    : rule_(std::move(rule)), sums_(std::move(sums)), outer_(std::exchange(innermost, this)) {}
OperandScope::~OperandScope() { innermost = outer_; }

Sums OperandScope::sums() { return innermost && innermost->sums_ ? innermost->sums_(Scope::path()) : Sums(); }

OperandRule OperandScope::rule() { return innermost ? innermost->rule_ : OperandRule(); }

Tensor OperandScope::operand(const Tensor& x) {
  if (!innermost || !innermost->rule_) return x;
  return innermost->rule_(x, is_weight(x) ? OperandRole::weights : OperandRole::activations, Scope::path());
}

Tensor OperandScope::product(const Tensor& y) {
  if (!innermost || !innermost->rule_) return y;
  const Elementwise with_rule{
      "with_gradient", [](auto x) { return x; },
      [rule = innermost->rule_, layer = Scope::path()](const Tensor& g, const Tensor&, const Tensor&) {
        return Gradients{rule(g, OperandRole::gradients, layer)};
      },
      ElementwiseTraits{.is_listed = false}};
  return with_rule(y);
}

Tensor scaled(const Tensor& numbers, const Tensor& scale) { return scaled_op(numbers, scale); }

std::optional<ScaledNumbers> scaled_numbers(const Tensor& x) {
  const auto* map = op_as<Map>(x);
  if (!map || map->op.get() != &scaled_op.info()) return {};
  Tensor scale = x.inputs()[1];
  while (is_a<Expand, Reshape>(scale)) scale = scale.inputs()[0];
  const Tensor& wide = x.inputs()[0];  // the stored numbers as f32
  if (scale.shape().size() != 1 || wide.inputs().size() != 1 || !is_f8(wide.inputs()[0].dtype())) return {};
  return ScaledNumbers{wide.inputs()[0], reshape(scale, {})};
}

}  // namespace nixie
