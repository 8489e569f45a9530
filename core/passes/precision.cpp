// Precision: finds what must stay f32, gives the rest its type, and reads weights through their shadows.
#include "nixie/core/passes/precision.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/passes/view.h"
#include "nixie/core/passes/wide_squares.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

bool is_half(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }

// Values that stay f32: all that is computed from the last product (or pool, ...) on for an output, and from the last
// product or reduction on for a Variable. An output summed over samples is treated as a Variable's new value, because
// what it sums may be halves (a bias gradient). A single number, such as the loss, is not.
class StaysFloat {
 public:
  explicit StaysFloat(const Graph& graph) {
    for (const Tensor& output : graph.outputs) reach(output, false);
    for (const Trace::Set& set : graph.sets) reach(set.value, true);
    // A product read only by what stays f32 has no reason to round; one that others read too does.
    std::unordered_set<const Node*> read_by_others;
    for (const Tensor& x : topological(graph))
      if (!kept_.count(x.id()))
        for (const Tensor& input : x.inputs()) read_by_others.insert(input.id());
    for (const auto& [head, root] : heads_)
      if (!root && read_by_others.count(head)) kept_.erase(head);
  }
  bool operator()(const Tensor& x) const { return kept_.count(x.id()) != 0; }

 private:
  static bool sums_samples(const Reduce& reduce) { return std::ranges::find(reduce.axes, 0) != reduce.axes.end(); }

  // An exchange is no product: its values stay f32 as well, so that sums do not depend on where they are cut.
  static bool is_product(const Tensor& x) { return is_head(x) && !is_a<Collective>(x); }

  // Goes on behind no node that an earlier root of the same kind has reached.
  void reach(const Tensor& root, bool for_variable) {
    const bool is_number = root.shape().size() == 1;  // of losses and metrics, also as a Variable
    std::vector<Tensor> stack{root};
    std::unordered_set<const Node*>& visited = visited_[for_variable ? 1 : 0][is_number ? 1 : 0];
    if (is_product(root)) heads_[root.id()] = true;
    while (!stack.empty()) {
      const Tensor x = stack.back();
      stack.pop_back();
      if (!visited.insert(x.id()).second) continue;
      kept_.insert(x.id());
      if (is_product(x)) {
        heads_.emplace(x.id(), false).first->second |= for_variable && !is_number;
        continue;
      }
      if (const auto* reduce = op_as<Reduce>(x)) {
        const bool ends = !is_number && (for_variable || sums_samples(*reduce));
        if (ends || x.dtype() != Dtype::f32) continue;  // a flag that all is finite sums nothing
      }
      for (const Tensor& input : x.inputs()) stack.push_back(input);
    }
  }

  std::unordered_set<const Node*> kept_;
  std::array<std::array<std::unordered_set<const Node*>, 2>, 2> visited_;  // for a Variable; from a single number
  std::unordered_map<const Node*, bool> heads_;  // whether it must stay f32 whoever else reads it
};

class Halver {
 public:
  Halver(const Graph& graph, Dtype half) : kept_(graph), wide_(wide_squares(graph)), half_(half) {}

  Graph run(const Graph& graph) {
    for (const Tensor& x : topological(graph)) done_.emplace(x.id(), rebuild(x));
    Graph result;
    for (const Tensor& output : graph.outputs) result.outputs.push_back(as(done_.at(output.id()), output.dtype()));
    for (const Trace::Set& set : graph.sets) {
      const Tensor value = as(done_.at(set.value.id()), set.value.dtype());
      result.sets.push_back({set.variable, value});
      // The shadow is written where it is read: another step's shadow is brought up to date when that step runs.
      if (const auto shadow = shadows_.find(set.variable.get()); shadow != shadows_.end())
        result.sets.push_back({shadow->second, as(value, half_)});
    }
    return result;
  }

 private:
  Tensor rebuild(const Tensor& x) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : x.inputs()) inputs.push_back(done_.at(input.id()));
    Op op = x.node().op;
    Dtype dtype = x.dtype();
    if (wide_.count(x.id()) && is_half(dtype)) dtype = Dtype::f32;
    bool any_half = false;
    for (const Tensor& input : x.inputs())
      any_half |= done_.at(input.id()).dtype() == half_ || was_half_.count(input.id()) != 0;
    const auto follow_inputs = [&] {
      if (is_f8(dtype) && any_half) was_half_.insert(x.id());
      if (dtype != Dtype::f32 || !any_half || kept_(x)) return;
      if (wide_.count(x.id()))
        was_half_.insert(x.id());
      else
        dtype = half_;
    };
    const auto convert_inputs = [&](Dtype type) {
      for (Tensor& input : inputs)
        if (is_floating(type) && is_floating(input.dtype())) input = as(input, type);
    };
    if (reads_shadow(x)) return as(inputs[0], half_);
    std::visit(overloaded{
                   [&]<OneOf<Matmul, Conv, RoundedProduct> T>(const T&) {
                     if (dtype != Dtype::f32) return convert_inputs(dtype);
                     // Sums of 8-bit floats leave the range of halves before a scale brings them back.
                     if (is_f8(inputs[0].dtype()) && is_f8(inputs[1].dtype())) {
                       if (!kept_(x)) was_half_.insert(x.id());
                       if constexpr (std::is_same_v<T, Matmul>) op = Matmul{Math::fp32};
                       return;
                     }
                     convert_inputs(half_);
                     if (!kept_(x)) dtype = half_;
                   },
                   [&](const Map&) { follow_inputs(); },
                   [&]<OneOf<Pool, Gather, Scatter, Concat, Collective> T>(const T&) {
                     follow_inputs();
                     convert_inputs(dtype);
                   },
                   [&]<OneOf<Expand, Reshape, Permute, Slice, Pad> T>(const T&) {
                     dtype = inputs[0].dtype();
                     if (was_half_.count(x.inputs()[0].id())) was_half_.insert(x.id());
                   },
                   // Sums are f32; leaves, positions and random numbers are what they are.
                   []<OneOf<Constant, Input, Coordinate, Reduce, ArgSort, Scan, Random> T>(const T&) {},
               },
               op);
    if (inputs.empty()) return x;
    return Tensor::make(std::move(op), std::move(inputs), x.shape(), dtype);
  }

  // Whether x is a Variable rounded to halves: its shadow holds the same numbers.
  bool reads_shadow(const Tensor& x) const {
    if (!has_result(x, ResultType::cast) || x.dtype() != half_) return false;
    const Tensor* from = &x.inputs()[0];
    while (is_view(*from)) from = &from->inputs()[0];
    const auto* input = op_as<Input>(*from);
    return input && input->variable && from->dtype() == Dtype::f32;
  }

  // The value in another type, converted below its views, so that one conversion serves all of them.
  Tensor as(const Tensor& x, Dtype dtype) {
    if (x.dtype() == dtype) return x;
    std::vector<Tensor> chain{x};
    while (is_view(chain.back()) && !converted_.count({chain.back().id(), dtype}))
      chain.push_back(chain.back().inputs()[0]);
    Tensor result = converted(chain.back(), dtype);
    for (chain.pop_back(); !chain.empty(); chain.pop_back()) {
      const Tensor& view = chain.back();
      result = Tensor::make(view.node().op, {result}, view.shape(), dtype);
      remember(view, dtype, result);
    }
    return result;
  }

  Tensor converted(const Tensor& x, Dtype dtype) {
    if (const auto found = converted_.find({x.id(), dtype}); found != converted_.end()) return found->second;
    const auto* input = op_as<Input>(x);
    const bool has_shadow = input && input->variable && dtype == half_;
    const Tensor result = has_shadow ? shadow(input->variable) : retype(x, dtype);
    remember(x, dtype, result);
    return result;
  }

  void remember(const Tensor& x, Dtype dtype, const Tensor& result) {
    keep_.push_back(x);
    converted_[{x.id(), dtype}] = result;
  }

  Tensor shadow(const std::shared_ptr<VariableState>& variable) {
    const auto state = shadow_of(variable, half_);
    shadows_[variable.get()] = state;
    return Tensor::make(Input{.name = state->name, .variable = state}, {}, state->shape, half_);
  }

  StaysFloat kept_;
  std::unordered_set<const Node*> wide_,
      was_half_;  // the latter: those of wide_, and 8-bit floats with their products, that would else be halves
  Dtype half_;
  std::unordered_map<const Node*, Tensor> done_;
  std::map<std::pair<const Node*, Dtype>, Tensor> converted_;
  std::map<const VariableState*, std::shared_ptr<VariableState>> shadows_;
  std::vector<Tensor> keep_;  // alive while their addresses are keys
};

// The graph with each node but leaves made anew from its new inputs; its roots keep their types.
Graph rebuilt(const Graph& graph, const WriteNode& make) {
  Graph result = rewritten(graph, [&](const Tensor& x, std::vector<Tensor> inputs) {
    return inputs.empty() ? x : make(x, std::move(inputs));
  });
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    result.outputs[i] = retype(result.outputs[i], graph.outputs[i].dtype());
  for (std::size_t i = 0; i < graph.sets.size(); ++i)
    result.sets[i].value = retype(result.sets[i].value, graph.sets[i].value.dtype());
  return result;
}

// The same graph, whose own halves stay halves but for summed squares, which become f32.
Graph with_wide_squares(const Graph& graph) {
  const std::vector<Tensor> order = topological(graph);
  if (std::ranges::none_of(order, [](const Tensor& x) { return is_half(x.dtype()); })) return graph;
  const std::unordered_set<const Node*> wide = wide_squares(graph);
  if (wide.empty()) return graph;
  return rebuilt(graph, [&](const Tensor& x, std::vector<Tensor> inputs) {
    const bool is_wide = wide.count(x.id()) != 0 && is_half(x.dtype());
    const bool has_typed_inputs = is_head(x) || is_a<Concat>(x);
    for (Tensor& input : inputs)
      if (has_typed_inputs && is_half(x.dtype()) && is_floating(input.dtype()))
        input = retype(input, is_wide ? Dtype::f32 : x.dtype());
    return Tensor::make(x.node().op, std::move(inputs), x.shape(), is_wide ? Dtype::f32 : x.dtype());
  });
}

Graph with_math(const Graph& graph, Math math) {
  return rebuilt(graph, [&](const Tensor& x, std::vector<Tensor> inputs) {
    Op op = x.node().op;
    if (x.dtype() == Dtype::f32) {
      if (auto* conv = std::get_if<Conv>(&op)) conv->math = math;
      if (auto* matmul = std::get_if<Matmul>(&op)) matmul->math = math;
      if (auto* rounded = std::get_if<RoundedProduct>(&op))
        std::visit([&](auto& product) { product.math = math; }, rounded->product);
    }
    return Tensor::make(std::move(op), std::move(inputs), x.shape(), x.dtype());
  });
}

}  // namespace

Graph apply_precision(const Graph& graph, PrecisionPolicy precision) {
  switch (precision) {
    case PrecisionPolicy::fp16:
    case PrecisionPolicy::fp16_pure:
      return simplify(Halver(graph, Dtype::f16).run(graph));
    case PrecisionPolicy::bf16:
    case PrecisionPolicy::bf16_pure:
      return simplify(Halver(graph, Dtype::bf16).run(graph));
    case PrecisionPolicy::tf32:
      return with_math(with_wide_squares(graph), Math::tf32);
    case PrecisionPolicy::fp32:
      return with_math(with_wide_squares(graph), Math::fp32);
    case PrecisionPolicy::ieee:
      break;
  }
  return with_wide_squares(graph);
}

}  // namespace nixie
