// Step: traces a body, sends the graph through the passes, and replays the plan.
#include "nixie/core/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ostream>
#include <ranges>
#include <thread>
#include <unordered_map>

#include "nixie/core/graph/storage.h"
#include "nixie/core/passes/fuse.h"
#include "nixie/core/passes/layout.h"
#include "nixie/core/passes/memory.h"
#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/products.h"
#include "nixie/core/passes/recompute.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/rewrites/conv_forms.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/core/state/variable_memory.h"

namespace nixie {

const Tensor& Inputs::operator[](const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  const std::string names = fmt::format("{}", fmt::join(std::views::keys(values_), ", "));
  fail(Fault::usage, "the step has no input \"", name, "\", ", names.empty() ? "nor any other" : "only: " + names);
}

Graph prepare(const Graph& graph, PrecisionPolicy precision) {
  return apply_precision(multiply_stored_numbers(simplify(graph)), precision);
}

Graph rewrite(const Graph& prepared, const Target& target, Fusion fusion) {
  if (fusion == Fusion::none) return choose_conv_forms(prepared, target);
  return recompute(choose_conv_forms(expand_short_products(prepared), target));
}

Plan plan_of(const Graph& rewritten, Backend& backend, Fusion fusion) {
  const Graph ordered = order_collectives(rewritten);
  Plan plan = fuse(ordered, choose_layout(ordered, backend.target()), fusion);
  backend.lower(plan);
  plan_memory(plan, backend.target());
  return plan;
}

Plan make_plan(const Graph& prepared, Backend& backend, Fusion fusion) {
  return plan_of(rewrite(prepared, backend.target(), fusion), backend, fusion);
}

namespace {

/// Takes memory for a value; an error for want of it says which.
template <class Take>
auto with_memory_for(const std::string& name, Dtype dtype, const Shape& shape, Take&& take) try {
  return take();
} catch (const Error& error) {
  if (error.fault() != Fault::memory) throw;
  fail(Fault::memory, name, " ", dtype, " ", shape, ": ", error.what());
}

// Stored values a plan writes: reused by the next run unless somebody still holds what the last one gave.
class Results {
 public:
  explicit Results(const std::vector<Tensor>& values) : values_(values), storage_(values.size()) {}

  const std::shared_ptr<Storage>& fresh(std::size_t i, Backend& backend) {
    if (!storage_[i] || storage_[i].use_count() > 1)
      storage_[i] =
          std::make_shared<Storage>(values_[i].dtype(), values_[i].shape(), backend, has_variable_layout(values_[i]));
    return storage_[i];
  }
  Tensor tensor(std::size_t i) const {
    return Tensor::make(Input{.storage = storage_[i]}, {}, values_[i].shape(), values_[i].dtype());
  }
  const Tensor& value(std::size_t i) const { return values_[i]; }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<Tensor> values_;
  std::vector<std::shared_ptr<Storage>> storage_;
};

// An external slot of a plan, for one run.
struct External {
  std::shared_ptr<Storage> storage;
  std::shared_ptr<Buffer> buffer;
  bool changes = false;  // in the run
};

void run(Executable& executable, Backend& backend, const std::vector<External>& externals,
         std::span<const double> scalars) {
  std::vector<Storage::Use> uses;
  std::vector<std::shared_ptr<Buffer>> buffers;
  uses.reserve(externals.size());
  buffers.reserve(externals.size());
  for (const External& external : externals) {
    uses.emplace_back(external.storage, external.changes ? Storage::Use::Kind::changes : Storage::Use::Kind::reads);
    buffers.push_back(external.buffer);
  }
  executable.run(buffers, scalars);
  for (const External& external : externals)
    if (external.changes) external.storage->backend_wrote(backend, external.buffer);
}

const Input& input_of(const Tensor& leaf) { return std::get<Input>(leaf.node().op); }

}  // namespace

// A value given for an input of a Step, apart: what is stored, and what is computed from that.
class Step::Given {
 public:
  Given(const std::string& name, const Tensor& value) : name_(name), value_(value) {
    if (is_a<Constant>(value)) value_ = value.array();  // a number is stored like the rest
    is_plain_ = is_a<Input>(value_);
    leaves_ = is_plain_ ? std::vector{value_} : leaves_of({.outputs = {value_}});
  }

  const std::string& name() const { return name_; }
  /// Appends what is equal for values that differ only in what they store. A plain value, as most are, takes no text.
  void append_to(std::string& key) const {
    key.append(name_).append(is_plain_ ? ":" : "=");
    if (is_plain_) {
      key += {static_cast<char>(value_.dtype()), static_cast<char>(value_.shape().rank())};
      for (const std::int64_t size : value_.shape()) key.append(reinterpret_cast<const char*>(&size), sizeof(size));
    } else {
      const Graph graph{.outputs = {value_}};
      key += signature(graph) + fmt::format("{}", fmt::join(scalars_of(graph), ","));
    }
    for (const Tensor& leaf : leaves_) key += has_variable_layout(leaf) ? 'v' : ' ';
  }
  /// The value with an input of the Step in place of everything stored.
  Tensor symbol() const {
    std::unordered_map<const Node*, Tensor> inputs;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      inputs.emplace(leaves_[i].id(),
                     Tensor::make(Input{.name = name_of(i), .has_variable_layout = has_variable_layout(leaves_[i])}, {},
                                  leaves_[i].shape(), leaves_[i].dtype()));
    const auto by = [&](const Tensor& x, std::vector<Tensor> of) {
      const auto input = inputs.find(x.id());
      return input != inputs.end() ? input->second : with_inputs(x, std::move(of));
    };
    return rewritten({.outputs = {value_}}, by).outputs[0];
  }
  void bind(std::map<std::string, std::shared_ptr<Storage>>& stored) const {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      stored[name_of(i)] = input_of(leaves_[i]).storage;
      check(input_of(leaves_[i]).storage != nullptr, "the step's input \"", name_, "\" depends on \"",
            input_of(leaves_[i]).name, "\", which only has a value inside its own Step");
    }
  }

 private:
  static bool has_variable_layout(const Tensor& leaf) {
    const auto& storage = input_of(leaf).storage;
    return storage && storage->of_variable();
  }
  std::string name_of(std::size_t i) const { return is_plain_ ? name_ : fmt::format("{}.{}", name_, i); }

  std::string name_;
  Tensor value_;
  bool is_plain_;
  std::vector<Tensor> leaves_;
};

struct Step::Traced {
  struct Leaf {
    Tensor tensor;
    bool is_set = false;  ///< a Variable that the step sets
  };
  std::vector<std::string> output_names;
  Graph graph;
  std::vector<Leaf> leaves = {};
  std::vector<std::shared_ptr<VariableState>> set = {}, set_unread = {};  ///< those never read come after the outputs
  Results results;
  std::map<std::string, std::shared_ptr<Storage>> staging = {};  ///< inputs that came from the host
  Plan plan = {};
  std::unique_ptr<Executable> executable = {};  ///< null until the step is compiled
};

// The thread that uses a Step.
struct Step::User {
  std::atomic<std::thread::id> thread = {};

  // For as long as a call takes.
  class Call {
   public:
    explicit Call(User* user) : user_(user) {
      check(user_ != nullptr, "the step has no body, or was moved from");
      std::thread::id found;
      if (user_->thread.compare_exchange_strong(found, std::this_thread::get_id())) return;
      check(found != std::this_thread::get_id(), "the body of the step runs the step itself; give it another");
      fail(Fault::usage, "two threads use a step at a time; give each thread a step of its own");
    }
    ~Call() { user_->thread.store({}); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    User* user_;
  };
};

Step::Step(Backend& backend, Body body, PrecisionPolicy precision, Fusion fusion)
    : backend_(backend),
      body_(std::move(body)),
      precision_(precision),
      fusion_(fusion),
      kept_(kMostKept),
      user_(std::make_unique<User>()) {}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;

std::vector<Step::Given> Step::given(const std::map<std::string, Tensor>& inputs) {
  std::vector<Given> result;
  result.reserve(inputs.size());
  for (const auto& [name, value] : inputs) result.emplace_back(name, value);
  return result;
}

Step::Traced& Step::traced(const std::vector<Given>& inputs) {
  std::string key;
  for (const Given& each : inputs) each.append_to(key);
  if (const auto* known = kept_.find(key)) return **known;

  check(body_ != nullptr, "the step has no body, or was moved from");
  Trace trace;
  std::map<std::string, Tensor> symbols;
  for (const Given& each : inputs) symbols[each.name()] = each.symbol();
  std::vector<std::string> names;
  Graph graph;
  for (const auto& [name, value] : body_(Inputs(symbols))) {
    names.push_back(name);
    graph.outputs.push_back(value);
  }
  graph.sets = trace.sets();
  graph = prepare(graph, precision_);
  auto made = std::make_unique<Traced>(
      Traced{.output_names = std::move(names), .graph = graph, .results = Results(graph.outputs)});
  return *kept_.add(std::move(key), std::move(made));
}

void Step::compile(Traced& step) {
  const Graph graph = rewrite(step.graph, backend_.target(), fusion_);
  step.plan = plan_of(graph, backend_, fusion_);
  step.executable = backend_.compile(step.plan);
  std::map<const VariableState*, bool> is_read;
  for (const Trace::Set& set : graph.sets) is_read[set.variable.get()] = false;
  for (const Tensor& leaf : leaves_of(graph)) {
    const auto set = is_read.find(input_of(leaf).variable.get());
    if (set != is_read.end()) set->second = true;
    step.leaves.push_back({leaf, set != is_read.end()});
  }
  for (const Trace::Set& set : graph.sets) {
    step.set.push_back(set.variable);
    if (!is_read.at(set.variable.get())) step.set_unread.push_back(set.variable);
  }
}

Step::Traced& Step::compiled(const std::map<std::string, Tensor>& inputs) {
  Traced& step = traced(given(inputs));
  if (!step.executable) compile(step);
  return step;
}

void Step::store_variables(const Traced& step) {
  for (const Tensor& leaf : leaves_of(step.graph))
    if (const auto& variable = input_of(leaf).variable) memory_of(*variable, *variable->stored(), backend_);
  for (const Trace::Set& set : step.graph.sets) memory_of(*set.variable, *set.variable->stored(), backend_);
}

void Step::store_variables(const std::map<std::string, Tensor>& inputs) {
  const User::Call call(user_.get());
  store_variables(traced(given(inputs)));
}

void Step::keep_at_most(std::size_t combinations) {
  const User::Call call(user_.get());
  kept_.keep_at_most(combinations);
}

void Step::clear() {
  const User::Call call(user_.get());
  kept_.clear();
}

const Graph& Step::graph(const std::map<std::string, Tensor>& inputs) {
  const User::Call call(user_.get());
  return traced(given(inputs)).graph;
}
const Plan& Step::plan(const std::map<std::string, Tensor>& inputs) {
  const User::Call call(user_.get());
  return compiled(inputs).plan;
}
std::vector<std::string> Step::algorithms(const std::map<std::string, Tensor>& inputs) {
  const User::Call call(user_.get());
  return compiled(inputs).executable->algorithms();
}

Outputs Step::operator()(const std::map<std::string, Tensor>& inputs) {
  const User::Call call(user_.get());
  const std::vector<Given> values = given(inputs);
  Traced& step = traced(values);
  if (!step.executable) {
    store_variables(step);  // first, so that a plan that does not fit knows what is left for it
    compile(step);
  }
  std::map<std::string, std::shared_ptr<Storage>> stored;
  for (const Given& each : values) each.bind(stored);
  std::vector<External> externals;
  externals.reserve(step.leaves.size() + step.results.size() + step.set_unread.size());
  const auto take_variable = [&](VariableState& variable, bool is_set) {
    const auto storage = is_set ? variable.stored_for_change() : variable.stored();
    externals.push_back({storage, memory_of(variable, *storage, backend_), is_set});
  };
  const auto take = [&](const std::string& name, const std::shared_ptr<Storage>& storage, auto&& buffer) {
    externals.push_back({storage, with_memory_for(name, storage->dtype(), storage->shape(), buffer)});
  };
  for (const auto& [leaf, is_set] : step.leaves) {
    const Input& input = input_of(leaf);
    if (input.variable) {
      take_variable(*input.variable, is_set);
    } else if (input.storage) {
      take("a constant", input.storage, [&] { return input.storage->on(backend_); });
    } else {
      const std::shared_ptr<Storage>& storage = stored.at(input.name);
      take(input.name, storage, [&] { return storage->staged(backend_, step.staging[input.name]); });
    }
  }
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    const Tensor& value = step.results.value(i);
    const std::shared_ptr<Storage>& storage = with_memory_for(step.output_names[i], value.dtype(), value.shape(),
                                                              [&] { return step.results.fresh(i, backend_); });
    externals.push_back({storage, storage->on(backend_), true});
  }
  for (const auto& variable : step.set_unread) take_variable(*variable, true);

  run(*step.executable, backend_, externals, step.plan.scalars);
  for (const auto& variable : step.set)
    if (variable->master) variable->follow_master();
  Outputs outputs;
  for (std::size_t i = 0; i < step.results.size(); ++i) outputs.emplace(step.output_names[i], step.results.tensor(i));
  return outputs;
}

namespace {

// Whether the same memory and numbers are bound to plans of both.
bool bind_alike(const Graph& a, const Graph& b) {
  const auto same = [](const Tensor& x, const Tensor& y) { return x.id() == y.id(); };
  return std::ranges::equal(leaves_of(a), leaves_of(b), same) && scalars_of(a) == scalars_of(b);
}

}  // namespace

// Each call rewrites its graph to find the plan of an earlier one, so that values are recomputed only where that
// changes nothing that is bound.
std::vector<Tensor> evaluate(const std::vector<Tensor>& values, Backend& backend) {
  const Graph graph = expand_short_products(prepare({.outputs = values}, PrecisionPolicy::ieee));
  const std::vector<Tensor> leaves = leaves_of(graph);
  for (const Tensor& leaf : leaves)
    check(input_of(leaf).storage != nullptr, "evaluate: the value depends on \"", input_of(leaf).name,
          "\", which only has a value inside its Step");
  const auto executable = backend.reused(signature(graph), [&] {
    const Graph formed = choose_conv_forms(graph, backend.target()), again = recompute(formed);
    return backend.compile(plan_of(bind_alike(again, graph) ? again : formed, backend));
  });
  std::vector<External> externals;
  const auto take = [&](const char* name, const Tensor& value, auto&& storage, bool changes) {
    with_memory_for(name, value.dtype(), value.shape(), [&] {
      const std::shared_ptr<Storage> taken = storage();
      externals.push_back({taken, taken->on(backend), changes});
    });
  };
  for (const Tensor& leaf : leaves)
    take(
        "a stored value", leaf, [&] { return input_of(leaf).storage; }, false);
  Results results(graph.outputs);
  for (std::size_t i = 0; i < values.size(); ++i)
    take(
        "a result", values[i], [&] { return results.fresh(i, backend); }, true);
  run(*executable, backend, externals, scalars_of(graph));
  std::vector<Tensor> stored;
  for (std::size_t i = 0; i < values.size(); ++i) stored.push_back(results.tensor(i));
  return stored;
}

Tensor evaluate(const Tensor& value, Backend& backend) { return evaluate(std::vector<Tensor>{value}, backend)[0]; }
Tensor evaluate(const Tensor& value) { return evaluate(value, default_backend()); }

std::string to_string(const Tensor& value) {
  const std::vector<Tensor> leaves = leaves_of({.outputs = {value}});
  const bool is_stored = leaves.size() == 1 && leaves[0].id() == value.id();
  for (const Tensor& leaf : leaves)
    if (!input_of(leaf).storage) return fmt::format("{} {}, known inside its Step", value.dtype(), value.shape());
  return to_string(is_stored ? value.array() : evaluate(value).array());
}
std::ostream& operator<<(std::ostream& out, const Tensor& value) { return out << to_string(value); }

}  // namespace nixie
