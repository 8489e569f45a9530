// Autograd: walks the graph backwards, asking each op for its gradient rule.
#include "nixie/core/state/autograd.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/operands.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

// The nodes that the loss is computed from and that depend on some `wrt`, inputs before users.
std::vector<Tensor> between(const Tensor& loss, const std::vector<Tensor>& wrt) {
  std::unordered_set<const Node*> reaches;
  for (const Tensor& x : wrt) reaches.insert(x.id());
  std::vector<Tensor> order = topological({.outputs = {loss}});
  std::erase_if(order, [&](const Tensor& x) {
    const auto depends = [&](const Tensor& input) { return reaches.count(input.id()) != 0; };
    if (!depends(x) && std::ranges::none_of(x.inputs(), depends)) return true;
    reaches.insert(x.id());
    return false;
  });
  return order;
}

Gradients rule(const Tensor& y, const Tensor& g) {
  const auto& x = y.inputs();
  return std::visit(overloaded{
                        [&](const Map& map) {
                          if (!map.op->gradient) return Gradients(x.size());
                          Gradients shares = map.op->gradient(g, y, x);
                          check(shares.size() == x.size(), "gradients: the gradient of op ", map.op->name, " gives ",
                                shares.size(), " Gradients, expected ", x.size(), ", one for each input");
                          return shares;
                        },
                        []<OneOf<Constant, Input, Coordinate> T>(const T&) { return Gradients{}; },
                        [](const Random&) { return Gradients{{}}; },
                        [&](const auto& op) { return gradient(op, g, y, x); },
                    },
                    y.node().op);
}

}  // namespace

std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& wrt) {
  check(loss.shape().size() == 1, "gradients: the loss has shape ", loss.shape(), ", expected one element");
  check(is_floating(loss.dtype()), "gradients: the loss is ", loss.dtype(), ", expected a floating type");
  const OperandScope none({});  // the operands of gradients' products already are what a rule gave
  std::unordered_map<const Node*, Tensor> grad;
  grad.emplace(loss.id(), full(loss.shape(), 1.0, gradient_dtype(loss.dtype())));
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
      const Tensor share = retype(sum_to(shares[i], x.shape()), gradient_dtype(x.dtype()));
      const auto [slot, fresh] = grad.try_emplace(x.id(), share);
      if (!fresh) slot->second = slot->second + share;
    }
  }
  std::vector<Tensor> result;
  for (const Tensor& x : wrt) {
    const auto found = grad.find(x.id());
    result.push_back(found == grad.end() ? zeros(x.shape(), gradient_dtype(x.dtype())) : found->second);
  }
  return result;
}

namespace {

// The value of each Variable that the loss was computed from: the present one, or one from before it was set.
std::vector<Tensor> values_read(const Tensor& loss, const std::vector<Variable>& variables) {
  std::unordered_set<const Node*> in_loss;
  for (const Tensor& x : topological({.outputs = {loss}})) in_loss.insert(x.id());
  std::vector<Tensor> result(variables.begin(), variables.end());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (in_loss.count(result[i].id())) continue;
    const std::vector<Tensor> former = variables[i].former_values();
    const auto read = std::ranges::find_if(former, [&](const Tensor& value) { return in_loss.count(value.id()) != 0; });
    if (read != former.end()) result[i] = *read;
  }
  return result;
}

}  // namespace

std::vector<Gradient> gradients(const Tensor& loss, const std::vector<Variable>& wrt) {
  const std::vector<Tensor> values = gradients(loss, values_read(loss, wrt));
  std::vector<Gradient> result;
  for (std::size_t i = 0; i < wrt.size(); ++i) result.push_back({wrt[i], values[i]});
  return result;
}

std::vector<Gradient> gradients(const Tensor& loss, const Parameters& parameters) {
  return gradients(loss, parameters.trainable());
}

}  // namespace nixie
