// Autograd: walks the graph backwards, asking each op for its gradient rule.
#include "nixie/core/state/autograd.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

// Nodes that lie between the loss and `wrt`, inputs before users.
std::vector<Tensor> between(const Tensor& loss, const std::vector<Tensor>& wrt) {
  std::unordered_map<const Node*, bool> reaches;  // whether a node depends on some wrt
  for (const Tensor& x : wrt) reaches[x.id()] = true;
  std::vector<Tensor> order;
  std::vector<std::pair<Tensor, std::size_t>> stack{{loss, 0}};
  std::unordered_set<const Node*> visited{loss.id()};
  while (!stack.empty()) {
    auto& [tensor, next] = stack.back();
    const auto& inputs = tensor.inputs();
    if (next < inputs.size()) {
      const Tensor& input = inputs[next++];
      if (visited.insert(input.id()).second) stack.emplace_back(input, 0);
      continue;
    }
    bool any = reaches[tensor.id()];
    for (const Tensor& input : inputs) any = any || reaches[input.id()];
    reaches[tensor.id()] = any;
    if (any) order.push_back(tensor);
    stack.pop_back();
  }
  return order;
}

Gradients rule(const Tensor& y, const Tensor& g) {
  const auto& x = y.inputs();
  return std::visit(
      overloaded{
          [&](const Map& map) { return map.op->gradient ? map.op->gradient(g, y, x) : Gradients(x.size()); },
          [](const Constant&) { return Gradients{}; },
          [](const Input&) { return Gradients{}; },
          [](const Coordinate&) { return Gradients{}; },
          [](const Random&) { return Gradients{{}}; },
          [&](const auto& op) { return gradient(op, g, y, x); },
      },
      y.node().op);
}

}  // namespace

std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& wrt) {
  check(loss.shape().size() == 1, "gradients: the loss has shape ", loss.shape(), ", expected one element");
  check(is_floating(loss.dtype()), "gradients: the loss is ", loss.dtype(), ", expected a floating type");
  std::unordered_map<const Node*, Tensor> grad;
  grad.emplace(loss.id(), full(loss.shape(), 1.0, loss.dtype()));
  const std::vector<Tensor> order = between(loss, wrt);
  std::unordered_set<const Node*> wanted;
  for (const Tensor& y : order) wanted.insert(y.id());

  for (auto y = order.rbegin(); y != order.rend(); ++y) {
    const auto found = grad.find(y->id());
    if (found == grad.end()) continue;
    const Gradients shares = rule(*y, found->second);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const Tensor& x = y->inputs()[i];
      if (shares[i].id() == nullptr || !wanted.count(x.id()) || !is_floating(x.dtype())) continue;
      // A gradient has its value's type; the rules compute in the promoted one.
      const Tensor share = retype(sum_to(shares[i], x.shape()), x.dtype());
      const auto [slot, fresh] = grad.try_emplace(x.id(), share);
      if (!fresh) slot->second = slot->second + share;
    }
  }
  std::vector<Tensor> result;
  for (const Tensor& x : wrt) {
    const auto found = grad.find(x.id());
    result.push_back(found == grad.end() ? zeros_like(x) : found->second);
  }
  return result;
}

std::vector<Gradient> gradients(const Tensor& loss, const std::vector<Variable>& wrt) {
  const std::vector<Tensor> values = gradients(loss, std::vector<Tensor>(wrt.begin(), wrt.end()));
  std::vector<Gradient> result;
  for (std::size_t i = 0; i < wrt.size(); ++i) result.push_back({wrt[i], values[i]});
  return result;
}

std::vector<Gradient> gradients(const Tensor& loss, const Parameters& parameters) {
  return gradients(loss, parameters.trainable());
}

}  // namespace nixie
