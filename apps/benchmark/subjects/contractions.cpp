// Walks the graph from the output, then from each gradient; what the output reaches is fprop.
#include "nixie/apps/benchmark/subjects/contractions.h"

#include <algorithm>
#include <unordered_set>

#include "nixie/core/state/graph_walk.h"

namespace nixie::benchmark {
namespace {

bool is_contraction(const Tensor& x) {
  return std::holds_alternative<Conv>(x.node().op) || std::holds_alternative<Matmul>(x.node().op);
}

/// Follows a chain of views and conversions down to where it begins.
Tensor origin(Tensor x) {
  while (!is_contraction(x) && x.inputs().size() == 1 && !std::holds_alternative<Reduce>(x.node().op))
    x = x.inputs()[0];
  return x;
}

std::string layer_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(0, dot);
}

/// The layer whose weight is an operand; empty where none is.
std::string layer_of_weight(const Tensor& contraction) {
  for (const Tensor& operand : contraction.inputs()) {
    const auto* input = std::get_if<Input>(&origin(operand).node().op);
    if (input && input->variable && input->variable->trainable) return layer_of(input->variable->name);
  }
  return "";
}

/// Whether a layer's forward pass is an input gradient.
bool is_transposed(const std::vector<Contraction>& contractions, const std::string& layer) {
  return std::any_of(contractions.begin(), contractions.end(), [&](const Contraction& contraction) {
    const auto* conv = std::get_if<Conv>(&contraction.node.node().op);
    return conv && conv->role == ConvRole::input_grad && contraction.role == Role::fprop && contraction.layer == layer;
  });
}

std::vector<Tensor> contractions_in(const std::vector<Tensor>& roots) {
  std::vector<Tensor> found;
  for (const Tensor& node : topological({.outputs = roots}))
    if (is_contraction(node)) found.push_back(node);
  return found;
}

}  // namespace

std::string_view to_string(Role role) {
  return role == Role::fprop ? "fprop" : role == Role::input_grad ? "bprop" : "update";
}

std::vector<Contraction> contractions_of(const Tensor& output, const std::vector<Gradient>& gradients) {
  std::vector<Contraction> result;
  std::unordered_set<const Node*> forward;
  for (const Tensor& node : contractions_in({output})) {
    forward.insert(node.id());
    result.push_back({node, layer_of_weight(node), Role::fprop});
  }
  std::vector<Tensor> roots;
  for (const Gradient& gradient : gradients) roots.push_back(gradient.value);
  for (const Tensor& node : contractions_in(roots)) {
    if (forward.count(node.id())) continue;
    const auto of = std::find_if(gradients.begin(), gradients.end(),
                                 [&](const Gradient& gradient) { return origin(gradient.value).id() == node.id(); });
    if (of == gradients.end()) {
      result.push_back({node, layer_of_weight(node), Role::input_grad});
    } else {
      const std::string layer = layer_of(of->parameter.name());
      result.push_back({node, layer, Role::filter_grad, is_transposed(result, layer) ? 1 : 0});
    }
  }
  return result;
}

FlopCount count_flop(const std::vector<Contraction>& contractions) {
  FlopCount count;
  for (const Contraction& contraction : contractions) {
    const double own = flop(contraction.node);
    count.executed += own;
    if (contraction.role == Role::fprop) count.fprop += own;
  }
  return count;
}

}  // namespace nixie::benchmark
