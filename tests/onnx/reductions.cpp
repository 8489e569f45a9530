// ONNX's reductions.
#include "nixie/tests/onnx/node.h"

namespace nixie::onnx_nodes {
namespace {

using Reduction = Tensor (*)(const Tensor&, const Axes&, bool);

const std::map<std::string, Reduction> kReductions = {
    {"ReduceSum", sum},
    {"ReduceMean", mean},
    {"ReduceProd", prod},
    {"ReduceL2", norm},
    {"ReduceLogSumExp", logsumexp},
    {"ReduceMax", [](const Tensor& x, const Axes& axes,
                     bool keep) { return x.dtype() == Dtype::boolean ? any(x, axes, keep) : max(x, axes, keep); }},
    {"ReduceMin", [](const Tensor& x, const Axes& axes,
                     bool keep) { return x.dtype() == Dtype::boolean ? all(x, axes, keep) : min(x, axes, keep); }},
    {"ReduceL1", [](const Tensor& x, const Axes& axes, bool keep) { return sum(abs(x), axes, keep); }},
    {"ReduceLogSum", [](const Tensor& x, const Axes& axes, bool keep) { return log(sum(x, axes, keep)); }},
    {"ReduceSumSquare", [](const Tensor& x, const Axes& axes, bool keep) { return sum(square(x), axes, keep); }},
};

// Each element by itself, where ONNX says that no axes are none.
Tensor elementwise_form(const std::string& op, const Tensor& x) {
  if (op == "ReduceL1" || op == "ReduceL2") return abs(x);
  if (op == "ReduceLogSum") return log(x);
  if (op == "ReduceSumSquare") return square(x);
  return x;
}

Results reduced(const Node& node) {
  const Tensor& x = node.in(0);
  Axes axes = to_axes(node.ints(1, "axes").value_or(std::vector<std::int64_t>()));
  if (axes.empty() && node.integer("noop_with_empty_axes", 0)) return {elementwise_form(node.op(), x)};
  if (axes.empty()) axes = all_axes(x.shape());
  return {kReductions.at(node.op())(x, axes, node.integer("keepdims", 1) != 0)};
}

// Positions along one axis; of equal elements the first, or the last.
Results position(const Node& node) {
  Tensor x = node.in(0);
  const int axis = x.shape().normal_axis(static_cast<int>(node.integer("axis", 0)));
  const bool last = node.integer("select_last_index", 0), keep = node.integer("keepdims", 1);
  if (last) x = flip(x, {axis});
  Tensor found = node.op() == "ArgMax" ? argmax(x, {axis}, keep) : argmin(x, {axis}, keep);
  if (last) found = x.shape()[axis] - 1 - found;
  return {cast(found, Dtype::i64)};
}

}  // namespace

void add_reductions(Functions& functions) {
  for (const auto& [name, function] : kReductions) functions[name] = reduced;
  functions["ArgMax"] = functions["ArgMin"] = position;
}

}  // namespace nixie::onnx_nodes
