// Step: traces a body, sends the graph through the passes, and replays the plan.
#include "nixie/core/step.h"

#include "nixie/core/passes/fuse.h"
#include "nixie/core/passes/layout.h"
#include "nixie/core/passes/memory.h"
#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/simplify.h"

namespace nixie {

const Tensor& Inputs::operator[](const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  std::string names;
  for (const auto& [known, value] : values_) names += (names.empty() ? "" : ", ") + known;
  fail(Fault::usage, "the step has no input \"", name, "\", only: ", names);
}

Plan make_plan(const Graph& graph, Backend& backend) {
  Plan plan = fuse(graph, choose_layout(graph, backend.target()));
  backend.lower(plan);
  plan_memory(plan, backend.target());
  return plan;
}

namespace {

// Stored values a plan writes: reused by the next run unless somebody still holds what the last one gave.
class Results {
 public:
  Results(const std::vector<Tensor>& values) : values_(values), storage_(values.size()) {}

  const std::shared_ptr<Storage>& fresh(std::size_t i, Backend& backend) {
    if (!storage_[i] || storage_[i].use_count() > 1)
      storage_[i] =
          std::make_shared<Storage>(values_[i].dtype(), values_[i].shape(), backend, lies_as_variable(values_[i]));
    return storage_[i];
  }
  Tensor tensor(std::size_t i) const {
    return Tensor::make(Input{.storage = storage_[i]}, {}, values_[i].shape(), values_[i].dtype());
  }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<Tensor> values_;
  std::vector<std::shared_ptr<Storage>> storage_;
};

std::shared_ptr<Storage> stored_leaf(const Tensor& x) {
  const auto* input = std::get_if<Input>(&x.node().op);
  return input ? input->storage : nullptr;
}

}  // namespace

struct Step::Compiled {
  Plan plan;
  std::unique_ptr<Executable> executable;
  std::vector<std::string> output_names;
  Results results;
  std::vector<Tensor> leaves;                               // of the simplified graph
  std::map<std::string, std::shared_ptr<Storage>> staging;  // inputs that came from the host
  std::vector<std::shared_ptr<VariableState>> written,
      unread;  // set Variables; those never read come after the outputs
};

Step::Step(Backend& backend, Body body, PrecisionPolicy precision)
    : backend_(backend), body_(std::move(body)), precision_(precision) {}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;

Step::Compiled& Step::compiled(const std::map<std::string, Tensor>& inputs) {
  std::string key;
  for (const auto& [name, value] : inputs) key += fmt::format("{}:{}{} ", name, value.dtype(), value.shape());
  const auto found = cache_.find(key);
  if (found != cache_.end()) return *found->second;

  Trace trace;
  std::map<std::string, Tensor> symbols;
  for (const auto& [name, value] : inputs)
    symbols[name] = Tensor::make(Input{.name = name}, {}, value.shape(), value.dtype());
  const Outputs outputs = body_(Inputs(symbols));
  Graph graph{.sets = trace.sets()};
  std::vector<std::string> names;
  for (const auto& [name, value] : outputs) {
    names.push_back(name);
    graph.outputs.push_back(value);
  }
  graph = apply_precision(simplify(graph), precision_);
  Plan plan = make_plan(graph, backend_);
  auto executable = backend_.compile(plan);
  auto made = std::make_unique<Compiled>(Compiled{
      std::move(plan), std::move(executable), std::move(names), Results(graph.outputs), leaves_of(graph), {}, {}, {}});
  for (const Trace::Set& set : graph.sets) {
    bool read = false;
    for (const Tensor& leaf : made->leaves) read |= std::get<Input>(leaf.node().op).variable == set.variable;
    made->written.push_back(set.variable);
    if (!read) made->unread.push_back(set.variable);
  }
  return *cache_.emplace(key, std::move(made)).first->second;
}

const Plan& Step::plan(const std::map<std::string, Tensor>& inputs) { return compiled(inputs).plan; }

Outputs Step::operator()(const std::map<std::string, Tensor>& inputs) {
  Compiled& step = compiled(inputs);
  std::vector<std::shared_ptr<Buffer>> externals;
  for (const Tensor& leaf : step.leaves) {
    const auto& input = std::get<Input>(leaf.node().op);
    if (input.variable) {
      VariableState& variable = *input.variable;
      // Somebody outside holds the old value: leave it to them.
      const bool written = std::count(step.written.begin(), step.written.end(), input.variable) != 0;
      if (written && variable.leaf.lock()) {
        variable.storage = Storage::for_variable(variable.stored()->read().clone());
        variable.leaf.reset();
      }
      externals.push_back(variable.stored()->on(backend_));
    } else if (input.storage) {
      externals.push_back(input.storage->on(backend_));
    } else {
      const auto given = stored_leaf(inputs.at(input.name));
      check(given != nullptr, "the step's input \"", input.name, "\" is an expression; evaluate it first");
      externals.push_back(given->staged(backend_, step.staging[input.name]));
    }
  }
  for (std::size_t i = 0; i < step.results.size(); ++i)
    externals.push_back(step.results.fresh(i, backend_)->on(backend_));
  for (const auto& variable : step.unread) externals.push_back(variable->stored()->on(backend_));

  step.executable->run(externals, step.plan.scalars);
  for (const auto& variable : step.written) variable->storage->backend_wrote();
  for (const auto& variable : step.written)
    if (variable->master) variable->made_from = variable->master->stored()->version();
  Outputs outputs;
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    step.results.fresh(i, backend_)->backend_wrote();
    outputs.emplace(step.output_names[i], step.results.tensor(i));
  }
  return outputs;
}

std::vector<Tensor> evaluate(const std::vector<Tensor>& values, Backend& backend) {
  const Graph graph = simplify({.outputs = values});
  const std::vector<Tensor> leaves = leaves_of(graph);
  for (const Tensor& leaf : leaves)
    check(stored_leaf(leaf) != nullptr, "evaluate: the value depends on \"", std::get<Input>(leaf.node().op).name,
          "\", which only has a value inside its Step");
  std::shared_ptr<Executable>& executable = backend.compiled[signature(graph)];
  if (!executable) executable = backend.compile(make_plan(graph, backend));
  std::vector<std::shared_ptr<Buffer>> externals;
  for (const Tensor& leaf : leaves) externals.push_back(stored_leaf(leaf)->on(backend));
  Results results(graph.outputs);
  for (std::size_t i = 0; i < values.size(); ++i) externals.push_back(results.fresh(i, backend)->on(backend));
  executable->run(externals, scalars_of(graph));
  std::vector<Tensor> stored;
  for (std::size_t i = 0; i < values.size(); ++i) stored.push_back(results.tensor(i));
  return stored;
}

Tensor evaluate(const Tensor& value, Backend& backend) { return evaluate(std::vector<Tensor>{value}, backend)[0]; }
Tensor evaluate(const Tensor& value) { return evaluate(value, default_backend()); }

}  // namespace nixie
