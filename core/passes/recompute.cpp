// Recompute: gives every reader of a cheap value its own copy of the nodes that compute it.
//
// Batch normalisation's (x - mean) and (x - mean) * rstd are read by its gradients much later. Storing them costs a
// pass over memory each, and their bytes until then; but their readers can as well read x, which is stored anyway, and
// the small mean and rstd. So a Map of one stored value of its size, and of broadcast values, is never stored for
// another kernel: its readers recompute it.
//
// A ReLU's gate reads the ReLU's output. If all kernels that read the gated gradient also read x, as batch
// normalisation's gradient does, they recompute the gate from x, and the kernel that computes the gradient need not
// load the ReLU's output.
#include "nixie/core/passes/recompute.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "nixie/core/graph/storage.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

constexpr int kMostInstructions = 16;  // of what is computed again
constexpr int kMostOfGate = 24;        // of a gate, which is computed where memory is waited for, and of what it gates

class Recomputer {
 public:
  explicit Recomputer(const Graph& graph) : order_(topological(graph)) {
    for (const Tensor& output : graph.outputs) stored_.insert(output.id());
    for (const Trace::Set& set : graph.sets) stored_.insert(set.value.id());
    find_stored();
    find_results();
    find_sources();
    find_gated();
  }

  Tensor operator()(const Tensor& root) const { return done_.at(root.id()); }

  void rebuild() {
    for (const Tensor& x : order_) {
      std::vector<Tensor> inputs;
      bool same = true;
      for (const Tensor& input : x.inputs()) {
        inputs.push_back(readers_.at(input.id()).size() > 1 && recomputable(input) ? copy(input)
                                                                                   : done_.at(input.id()));
        same &= inputs.back().id() == input.id();
      }
      done_.emplace(x.id(), same ? x : Tensor::make(x.node().op, std::move(inputs), x.shape(), x.dtype()));
    }
  }

 private:
  // The source of a value: one value of its size, and the number of instructions from there, position by position.
  struct Source {
    Tensor of = {};
    int instructions = 0;
  };

  // Operands of heads, what is seen through views, and arrays side by side go to memory.
  void find_stored() {
    for (const Tensor& x : order_) {
      const bool in_registers = is_a<Map, Reduce>(x);
      for (const Tensor& input : x.inputs()) {
        readers_[input.id()].push_back(x);
        if (!in_registers) stored_.insert(input.id());
      }
      const auto* input = op_as<Input>(x);
      if ((input && !input->variable) || is_a<Concat>(x)) stored_.insert(x.id());
    }
  }

  // Finds the result that a kernel with a head stores: the head's value, or a later one of the chain of Maps that are
  // each other's only reader: the last that cannot be computed again from the one before it (adding a residual counts,
  // a bias does not).
  void find_results() {
    std::unordered_set<const Node*> passed;  // by a chain: what follows is known
    for (const Tensor& x : order_) {
      if (!is_head(x)) continue;
      Tensor result = x, next = x;
      results_.insert(x.id());
      while (readers_[next.id()].size() == 1 && is_a<Map>(readers_.at(next.id()).front())) {
        next = Tensor(readers_.at(next.id()).front());
        const auto source = source_of(next);
        if (source && source->of.id() == result.id()) {
          sources_.emplace(next.id(), *source);
        } else {
          results_.erase(result.id());
          if (!passed.insert(next.id()).second) break;
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
      if (is_a<Map>(x)) {
        if (auto source = source_of(x)) sources_.emplace(x.id(), *std::move(source));
      } else if (is_a<Reduce>(x)) {
        const Tensor& input = x.inputs()[0];
        const auto source = sources_.find(input.id());
        const Tensor& of = source == sources_.end() ? input : source->second.of;
        if (results_.count(of.id()) && stored_.insert(of.id()).second) reduced_.insert(of.id());
      }
    }
  }

  // A gate is computed from a stored value through other stored values; its operands are a pair.
  void find_gated() {
    for (const Tensor& x : order_) {
      if (!is_a<Map>(x)) continue;
      if (auto source = through_of(x))
        through_.emplace(x.id(), *std::move(source));
      else if (auto pair = pair_of(x))
        pairs_.emplace(x.id(), *std::move(pair));
    }
    for (const Tensor& x : order_) {
      const auto pair = pairs_.find(x.id());
      if (pair == pairs_.end() || !is_read_with(x, pair->second.beside)) continue;
      gated_.insert(x.id());
      results_.erase(x.id());
      stored_.erase(x.id());
      stored_.insert(pair->second.made.id());
    }
  }

  // A value in memory, and what the other values of its size are made of that it meets; by so many instructions.
  struct Pair {
    Tensor made = {}, beside = {};
    int instructions = 0;
  };

  std::optional<Pair> pair_of(const Tensor& x) const {
    if (stored_.count(x.id()) > reduced_.count(x.id()) || recomputable(x)) return {};
    Pair pair{.instructions = instructions_of(x).value_or(kMostOfGate + 1)};
    const auto meet = [](Tensor& known, const Tensor& found) {
      if (!known.id()) known = found;
      return known.id() == found.id();
    };
    for (const Tensor& input : x.inputs()) {
      if (is_small(input, x)) continue;
      if (const auto through = through_.find(input.id()); through != through_.end()) {
        if (!meet(pair.beside, through->second.of)) return {};
      } else if (const auto known = pairs_.find(input.id()); known != pairs_.end()) {
        if (!meet(pair.made, known->second.made) || !meet(pair.beside, known->second.beside)) return {};
        pair.instructions += known->second.instructions;
      } else if (!is_in_memory(input) || !meet(pair.made, input)) {
        return {};
      }
    }
    const bool both = pair.made.id() && pair.beside.id() && pair.made.id() != pair.beside.id();
    return both && pair.instructions <= kMostOfGate ? std::optional(pair) : std::nullopt;
  }

  // A head's result, what is seen through a view, and what is stored.
  bool is_in_memory(const Tensor& x) const { return stored_.count(x.id()) || !is_a<Map, Reduce>(x); }

  // Whether a reader of x reads another value, or what is made of that.
  bool is_read_with(const Tensor& x, const Tensor& other) const {
    const auto& readers = readers_.at(x.id());
    return std::ranges::any_of(readers, [&](const Tensor& reader) {
      return std::ranges::any_of(reader.inputs(), [&](const Tensor& input) {
        const auto source = sources_.find(input.id());
        return input.id() == other.id() ||
               (!stored_.count(input.id()) && source != sources_.end() && source->second.of.id() == other.id());
      });
    });
  }

  // As source_of, whether or not the values between are stored.
  std::optional<Source> through_of(const Tensor& x) const {
    Source source{.instructions = instructions_of(x).value_or(kMostOfGate + 1)};
    for (const Tensor& input : x.inputs()) {
      if (is_small(input, x)) continue;
      const auto known = through_.find(input.id());
      if (known == through_.end() && !stored_.count(input.id())) return {};
      const Tensor& of = known == through_.end() ? input : known->second.of;
      if (source.of.id() && source.of.id() != of.id()) return {};
      source.of = of;
      if (known != through_.end()) source.instructions += known->second.instructions;
    }
    return source.of.id() && source.instructions <= kMostOfGate ? std::optional(source) : std::nullopt;
  }

  // How many instructions compute a Map, where all of them are cheap.
  static std::optional<int> instructions_of(const Tensor& x) {
    const auto& body = std::get<Map>(x.node().op).op->formula.body;
    for (const Instruction& step : body)
      if (!is_cheap(step.primitive)) return {};
    return static_cast<int>(body.size());
  }

  // Whether an input of x repeats.
  static bool is_small(const Tensor& input, const Tensor& x) {
    return is_a<Constant>(input) || (is_a<Expand>(input) && input.inputs()[0].shape().size() * 16 <= x.shape().size());
  }

  std::optional<Source> source_of(const Tensor& x) const {
    Source source{.instructions = instructions_of(x).value_or(kMostInstructions + 1)};
    for (const Tensor& input : x.inputs()) {
      if (is_small(input, x)) continue;
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
    if (gated_.count(x.id())) return true;
    const auto source = sources_.find(x.id());
    return source != sources_.end() && !stored_.count(x.id()) && stored_.count(source->second.of.id());
  }

  // `gated`: x is inside a gated expression, where gates are computed again, too.
  Tensor copy(const Tensor& x, bool gated = false) const {
    gated |= gated_.count(x.id()) > 0;
    std::vector<Tensor> inputs;
    for (const Tensor& input : x.inputs()) {
      const bool again =
          recomputable(input) || (gated && (through_.count(input.id()) > 0 || pairs_.count(input.id()) > 0));
      inputs.push_back(again ? copy(input, gated) : done_.at(input.id()));
    }
    return Tensor::make(x.node().op, std::move(inputs), x.shape(), x.dtype());
  }

  const std::vector<Tensor> order_;
  std::unordered_map<const Node*, std::vector<Tensor>> readers_;
  std::unordered_set<const Node*> results_;
  std::unordered_set<const Node*> stored_;   // what goes to memory whatever is fused
  std::unordered_set<const Node*> reduced_;  // of that, what does for a reduction alone
  std::unordered_map<const Node*, Source> sources_;
  std::unordered_map<const Node*, Source> through_;  // as if nothing between were stored
  std::unordered_map<const Node*, Pair> pairs_;
  std::unordered_set<const Node*> gated_;  // pairs whose readers read both
  std::unordered_map<const Node*, Tensor> done_;
};

}  // namespace

Graph recompute(const Graph& graph) {
  Recomputer recomputed(graph);
  recomputed.rebuild();
  return with_roots(graph, std::cref(recomputed));
}

}  // namespace nixie
