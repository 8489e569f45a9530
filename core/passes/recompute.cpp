// Recompute: gives every reader of a cheap value nodes of its own to make it from.
//
// Batch normalisation's (x - mean) and (x - mean) * rstd are read by its gradients long after. Stored, each costs a
// pass over memory to write and takes the bytes until then; but whoever reads one could as well read x, which is stored
// anyway, and the small mean and rstd. So a Map of one stored value of its size, and of values that repeat, is never
// stored for another kernel: it is computed again where it is read.
#include "nixie/core/passes/recompute.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/passes/simplify.h"

namespace nixie {
namespace {

constexpr int kMostInstructions = 16;  // of what is computed again

// Arithmetic that takes no longer than reading memory does.
bool is_cheap(Primitive primitive) {
  switch (primitive) {
    case Primitive::parameter:
    case Primitive::constant:
    case Primitive::cast:
    case Primitive::neg:
    case Primitive::abs:
    case Primitive::add:
    case Primitive::sub:
    case Primitive::mul:
    case Primitive::min:
    case Primitive::max:
    case Primitive::equal:
    case Primitive::not_equal:
    case Primitive::less:
    case Primitive::less_equal:
    case Primitive::logical_and:
    case Primitive::logical_or:
    case Primitive::logical_not:
    case Primitive::select:
      return true;
    default:
      return false;
  }
}

class Recomputer {
 public:
  explicit Recomputer(const Graph& graph) : order_(topological(graph)) {
    for (const Tensor& output : graph.outputs) stored_.insert(output.id());
    for (const Trace::Set& set : graph.sets) stored_.insert(set.value.id());
    find_stored();
    find_results();
    find_sources();
  }

  Tensor operator()(const Tensor& root) const { return done_.at(root.id()); }

  void rebuild() {
    for (const Tensor& x : order_) {
      std::vector<Tensor> inputs;
      bool same = true;
      for (const Tensor& input : x.inputs()) {
        inputs.push_back(users_.at(input.id()) > 1 && recomputable(input) ? copy(input) : done_.at(input.id()));
        same &= inputs.back().id() == input.id();
      }
      done_.emplace(x.id(), same ? x : Tensor::make(x.node().op, std::move(inputs), x.shape(), x.dtype()));
    }
  }

 private:
  // What a value is made of, position by position: one value of its size, by so many instructions.
  struct Source {
    Tensor of = {};
    int instructions = 0;
  };

  // Operands of heads and what is seen through views go to memory.
  void find_stored() {
    for (const Tensor& x : order_) {
      const Op& op = x.node().op;
      const bool in_registers = std::holds_alternative<Map>(op) || std::holds_alternative<Reduce>(op);
      for (const Tensor& input : x.inputs()) {
        ++users_[input.id()];
        user_[input.id()] = x;
        if (!in_registers) stored_.insert(input.id());
      }
      if (const auto* input = std::get_if<Input>(&op); input && !input->variable) stored_.insert(x.id());
    }
  }

  // What a kernel with a head stores: the head's value, or a later one of the chain of Maps that are each other's only
  // reader: the last that cannot be computed again from the one before it (adding a residual counts, a bias does not).
  void find_results() {
    for (const Tensor& x : order_) {
      if (!is_head(x.node().op)) continue;
      Tensor result = x, next = x;
      results_.insert(x.id());
      while (users_[next.id()] == 1 && std::holds_alternative<Map>(user_.at(next.id()).node().op)) {
        next = user_.at(next.id());
        const auto source = source_of(next);
        if (source && source->of.id() == result.id()) {
          sources_.emplace(next.id(), *source);
        } else {
          results_.erase(result.id());
          results_.insert(next.id());
          result = next;
        }
      }
    }
  }

  // Such a result goes to memory where a reduction is taken of it: no kernel has both.
  void find_sources() {
    for (const Tensor& x : order_) {
      if (results_.count(x.id())) continue;
      if (std::holds_alternative<Map>(x.node().op)) {
        if (auto source = source_of(x)) sources_.emplace(x.id(), *std::move(source));
      } else if (std::holds_alternative<Reduce>(x.node().op)) {
        const Tensor& input = x.inputs()[0];
        const auto source = sources_.find(input.id());
        const Tensor& of = source == sources_.end() ? input : source->second.of;
        if (results_.count(of.id())) stored_.insert(of.id());
      }
    }
  }

  std::optional<Source> source_of(const Tensor& x) const {
    Source source;
    for (const Instruction& step : std::get<Map>(x.node().op).op->formula.body) {
      if (!is_cheap(step.primitive)) return {};
      ++source.instructions;
    }
    for (const Tensor& input : x.inputs()) {
      const Op& op = input.node().op;
      if (std::holds_alternative<Constant>(op)) continue;
      if (std::holds_alternative<Expand>(op)) {
        if (input.inputs()[0].shape().size() * 16 > x.shape().size()) return {};
        continue;
      }
      const auto known = sources_.find(input.id());
      const bool made = known != sources_.end() && !stored_.count(input.id());
      if (!made && !results_.count(input.id()) && !stored_.count(input.id())) return {};
      const Tensor& of = made ? known->second.of : input;
      if (source.of.id() && source.of.id() != of.id()) return {};
      source.of = of;
      if (made) source.instructions += known->second.instructions;
    }
    if (!source.of.id() || source.instructions > kMostInstructions) return {};
    return size_of(source.of.dtype()) <= size_of(x.dtype()) ? std::optional(source) : std::nullopt;
  }

  bool recomputable(const Tensor& x) const {
    const auto source = sources_.find(x.id());
    return source != sources_.end() && !stored_.count(x.id()) && stored_.count(source->second.of.id());
  }

  Tensor copy(const Tensor& x) const {
    std::vector<Tensor> inputs;
    for (const Tensor& input : x.inputs()) inputs.push_back(recomputable(input) ? copy(input) : done_.at(input.id()));
    return Tensor::make(x.node().op, std::move(inputs), x.shape(), x.dtype());
  }

  const std::vector<Tensor> order_;
  std::unordered_map<const Node*, int> users_;
  std::unordered_map<const Node*, Tensor> user_;  // the last of them
  std::unordered_set<const Node*> results_;
  std::unordered_set<const Node*> stored_;  // what goes to memory whatever is fused
  std::unordered_map<const Node*, Source> sources_;
  std::unordered_map<const Node*, Tensor> done_;
};

}  // namespace

Graph recompute(const Graph& graph) {
  Recomputer recomputed(graph);
  recomputed.rebuild();
  Graph result;
  for (const Tensor& output : graph.outputs) result.outputs.push_back(recomputed(output));
  for (const Trace::Set& set : graph.sets) result.sets.push_back({set.variable, recomputed(set.value)});
  return result;
}

}  // namespace nixie
