// Variable, Parameters and Trace.
#include "nixie/core/state/variable.h"

#include <algorithm>

#include "nixie/core/base/random.h"
#include "nixie/core/graph/storage.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/variable_memory.h"

namespace nixie {
namespace {

constexpr std::size_t kMostInName = 1024, kMostShown = 100;

thread_local Trace* current_trace = nullptr;

std::shared_ptr<const Node> leaf_node(Input input, const VariableState& state) {
  return Tensor::make(std::move(input), {}, state.shape, state.dtype).handle();
}

/// The exception that is being handled; one for want of memory names the Variable.
[[noreturn]] void rethrow_for(const VariableState& state, const Error& error) {
  const bool is_named = dynamic_cast<const NoMemoryForVariable*>(&error) != nullptr;  // by itself, or its master
  if (error.fault() != Fault::memory || is_named) throw;
  throw NoMemoryForVariable(line_of(Scope::prefix(), state.name, " ", state.dtype, " ", state.shape, ": ", error.what(),
                                    "; use a larger device or a smaller model"));
}

}  // namespace

std::shared_ptr<Storage> VariableState::stored_locked() try {
  if (!master) {
    check(storage || init, "variable \"", name, "\" has no value; its state has neither a storage nor an init");
    if (!storage) storage = Storage::for_variable(init(), name);
  } else if (const auto source = master->stored(); made_from != source->version()) {
    const std::uint64_t version = source->version();
    const Array values = source->read().to(dtype);
    if (storage)
      storage->write(values);
    else
      storage = Storage::for_variable(values, name);
    made_from = version;
  }
  return storage;
} catch (const Error& error) {
  rethrow_for(*this, error);
}

void VariableState::end_reads() {
  std::erase_if(former_leaves, [](const auto& former) { return former.expired(); });
  if (!leaf.expired()) former_leaves.push_back(leaf);
  leaf.reset();
}

std::shared_ptr<Storage> VariableState::stored() {
  const std::lock_guard lock(mutex);
  return stored_locked();
}

std::shared_ptr<Storage> VariableState::stored_for_change() {
  const std::lock_guard lock(mutex);
  if (leaf.lock()) {
    storage = Storage::for_variable(stored_locked()->read().clone(), name);
    end_reads();
  }
  return stored_locked();
}

void VariableState::set(const Array& value) {
  const std::lock_guard lock(mutex);
  if (leaf.lock()) {
    storage = Storage::for_variable(value.clone(), name);
    end_reads();
  } else {
    stored_locked()->write(value);
  }
}

std::shared_ptr<const Node> VariableState::read_node() {
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Node> node = leaf.lock();
  if (!node) {
    node = leaf_node(Input{.name = name, .storage = stored_locked()}, *this);
    leaf = node;
  }
  return node;
}

void VariableState::follow_master() {
  const std::lock_guard lock(mutex);
  made_from = master->stored()->version();
}

std::shared_ptr<Buffer> memory_of(const VariableState& variable, Storage& storage, Backend& backend) try {
  return storage.on(backend);
} catch (const Error& error) {
  rethrow_for(variable, error);
}

std::shared_ptr<VariableState> shadow_of(const std::shared_ptr<VariableState>& master, Dtype dtype) {
  const std::lock_guard lock(master->mutex);
  std::weak_ptr<VariableState>& known = master->shadows[dtype];
  std::shared_ptr<VariableState> shadow = known.lock();
  if (!shadow) {
    shadow = std::make_shared<VariableState>(VariableState{.name = fmt::format("{} ({})", master->name, dtype),
                                                           .shape = master->shape,
                                                           .dtype = dtype,
                                                           .trainable = false,
                                                           .master = master});
    known = shadow;
  }
  return shadow;
}

Variable::Variable(const std::string& name, const Array& value, bool trainable)
    : state_(std::make_shared<VariableState>(VariableState{.name = name,
                                                           .shape = value.shape(),
                                                           .dtype = value.dtype(),
                                                           .trainable = trainable,
                                                           .storage = Storage::for_variable(value.clone(), name)})) {}

Variable::Variable(std::shared_ptr<VariableState> state) : state_(std::move(state)) {
  check(state_ != nullptr, "a Variable is made of no state");
}

Variable::operator Tensor() const {
  if (current_trace) return current_trace->read(state_);
  return Tensor(state_->read_node());
}

std::vector<Tensor> Variable::former_values() const {
  std::vector<Tensor> values;
  for (const Trace* trace = current_trace; trace; trace = trace->outer_)
    if (const auto found = trace->former_values_.find(state_.get()); found != trace->former_values_.end())
      values.insert(values.end(), found->second.rbegin(), found->second.rend());
  // An outer trace's last value is a former one, too, where an inner trace has set the Variable.
  for (const Trace* trace = current_trace ? current_trace->outer_ : nullptr; trace; trace = trace->outer_)
    if (const auto found = trace->values_.find(state_.get()); found != trace->values_.end())
      values.push_back(found->second);
  const std::lock_guard lock(state_->mutex);
  for (auto leaf = state_->former_leaves.rbegin(); leaf != state_->former_leaves.rend(); ++leaf)
    if (std::shared_ptr<const Node> node = leaf->lock()) values.emplace_back(std::move(node));
  return values;
}

Array Variable::array() const { return state_->stored()->read(); }

void Variable::set(const Tensor& value) const {
  check(value.shape() == shape() || is_a<Constant>(value), "variable ", name(), " of shape ", shape(),
        " is set to a value of shape ", value.shape());
  const Tensor given = broadcast_to(value, shape());
  const Tensor whole = given.dtype() == dtype() ? given : cast(given, dtype());
  if (current_trace) return current_trace->record(state_, whole);
  const auto* number = op_as<Constant>(value);  // as it was given, not as its own type rounds it
  const auto* input = op_as<Input>(value);
  check(number || (input && input->storage), "variable ", name(),
        " is set outside a Step to a value that is not computed; do so in a Step's body, or evaluate the value first");
  const Array full =
      number ? Array::from(std::vector<double>(static_cast<std::size_t>(shape().size()), number->value), shape())
                   .to(dtype())
             : value.array().to(dtype());
  state_->set(full);
}

struct Parameters::Collection {
  std::uint64_t seed = 0;
  Dtype floating = Dtype::f32;
  std::vector<Variable> variables;
  std::map<std::string, std::size_t> by_name;
};

std::string name_fault(const std::string& name) {
  const bool is_printable = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~' && c != '/'; });
  if (name.empty() || name.size() > kMostInName || !is_printable)
    return fmt::format("expected printable ASCII without / or spaces, at most {} characters", kMostInName);
  return name.find_first_not_of('.') == std::string::npos ? "expected more than dots" : "";
}

Parameters::Parameters(std::uint64_t seed, Dtype floating) : collection_(std::make_shared<Collection>()) {
  collection_->seed = seed;
  collection_->floating = floating;
}

Variable Parameters::add(const std::string& name, const Shape& shape, Init init, Dtype dtype, bool trainable) const {
  const std::string full = prefix_ + name;
  const std::string fault = name_fault(name.empty() ? name : full);
  check(fault.empty(), "parameter name \"", full.substr(0, kMostShown), "\", ", fault);
  check(collection_->by_name.emplace(full, collection_->variables.size()).second, "parameter name ", full,
        " is taken; give one of the two layers another .name");
  const std::uint64_t stream = random_stream(collection_->seed, full + "/init");
  return collection_->variables.emplace_back(std::make_shared<VariableState>(
      VariableState{.name = full, .shape = shape, .dtype = dtype, .trainable = trainable, .init = [=] {
                      return init.make(shape, stream).to(dtype);
                    }}));
}

Variable Parameters::make(const std::string& name, const Shape& shape, Init init, Dtype dtype) const {
  return add(name, shape, init, dtype == Dtype::f32 ? collection_->floating : dtype, true);
}
Variable Parameters::state(const std::string& name, const Shape& shape, Init init, Dtype dtype,
                           const std::optional<NumberRange>& range) const {
  const bool is_double = dtype == Dtype::f32 && collection_->floating == Dtype::f64;
  const Variable variable = add(name, shape, init, is_double ? Dtype::f64 : dtype, false);
  variable.state()->range = range;
  return variable;
}
Variable Parameters::number(const std::string& name, float initial, Dtype dtype, const NumberRange& range) const {
  return state(name, {}, Init::constant(initial), dtype, range);
}
Parameters Parameters::scope(const std::string& name) const {
  Parameters inner = *this;
  inner.prefix_ += name + ".";
  return inner;
}
const std::vector<Variable>& Parameters::all() const { return collection_->variables; }
std::vector<Variable> Parameters::trainable() const {
  std::vector<Variable> result;
  std::copy_if(all().begin(), all().end(), std::back_inserter(result), [](const Variable& v) { return v.trainable(); });
  return result;
}
std::optional<Variable> Parameters::find(const std::string& name) const {
  const auto found = collection_->by_name.find(name);
  if (found == collection_->by_name.end()) return {};
  return all()[found->second];
}
std::int64_t Parameters::count() const {
  std::int64_t total = 0;
  for (const Variable& v : all()) total += v.trainable() ? v.shape().size() : 0;
  return total;
}
std::uint64_t Parameters::seed() const { return collection_->seed; }

Trace::Trace() : outer_(std::exchange(current_trace, this)) {}
Trace::~Trace() { current_trace = outer_; }

Tensor Trace::read(const std::shared_ptr<VariableState>& state) {
  const auto found = values_.find(state.get());
  if (found != values_.end()) return found->second;
  Tensor value =
      outer_ ? outer_->read(state) : Tensor(leaf_node(Input{.name = state->name, .variable = state}, *state));
  values_.emplace(state.get(), value);
  return value;
}

void Trace::rollback_unless(const Tensor& ok) {
  check(current_trace != nullptr, "rollback_unless: there is no trace; use it in a Step's body");
  check(ok.shape().size() == 1, "rollback_unless: the condition has shape ", ok.shape(), ", expected one number");
  const Tensor number = reshape(ok, Shape{});
  for (Set& set : current_trace->sets_) {
    const Tensor old(leaf_node(Input{.name = set.variable->name, .variable = set.variable}, *set.variable));
    set.value = where(number, set.value, old);
    current_trace->replace(set.variable.get(), set.value);
  }
}

void Trace::replace(VariableState* state, const Tensor& value) {
  const auto [slot, fresh] = values_.try_emplace(state, value);
  if (!fresh) former_values_[state].push_back(std::exchange(slot->second, value));
}

void Trace::record(const std::shared_ptr<VariableState>& state, const Tensor& value) {
  replace(state.get(), value);
  for (Set& set : sets_)
    if (set.variable == state) return void(set.value = value);
  sets_.push_back({state, value});
}

}  // namespace nixie
