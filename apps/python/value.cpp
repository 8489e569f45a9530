// Which expressions have names in Python, which of them are computed, and how they are computed together.
#include "nixie/apps/python/value.h"

#include <pybind11/pybind11.h>

#include <unordered_map>
#include <unordered_set>

#include "nixie/backends/registry.h"
#include "nixie/core/step.h"

namespace nixie::python {
namespace {

thread_local int differentiations = 0, traces = 0;
int all_differentiations = 0;  // of every thread

// Never destroyed: Python frees arrays after C++ has begun to destroy what is static.
template <class T>
T& everlasting() {
  static T& object = *new T;
  return object;
}

// The Values that are expressions still, and how many of them name a node.
auto& expressions() { return everlasting<std::unordered_set<Value*>>(); }
auto& names() { return everlasting<std::unordered_map<const Node*, int>>(); }

struct Computed {
  std::weak_ptr<const Node> expression;
  Tensor value;
};
// The values of expressions that exist still: as part of a larger one, or during a differentiation.
auto& computed() { return everlasting<std::unordered_map<const Node*, Computed>>(); }

const Tensor* computed_value(const Tensor& expression) {
  const auto found = computed().find(expression.id());
  return found != computed().end() && !found->second.expression.expired() ? &found->second.value : nullptr;
}

void forget_expired() {
  std::erase_if(computed(), [](const auto& each) { return each.second.expression.expired(); });
}

// Expressions with stored values in place of what is computed, and the named expressions that they contain.
class Unfinished {
 public:
  Tensor add(const Tensor& root) {
    std::vector<Tensor> stack{root};
    while (!stack.empty()) {
      const Tensor x = stack.back();
      if (!done_.contains(x.id())) {
        const std::size_t depth = stack.size();
        const Tensor* value = computed_value(x);
        if (!value)
          for (const Tensor& input : x.inputs())
            if (!done_.contains(input.id())) stack.push_back(input);
        if (stack.size() > depth) continue;
        done_.emplace(x.id(), value ? *value : rebuilt(x));
        if (!value && (names().contains(x.id()) || x.id() == root.id())) take(x, x.id() == root.id());
      }
      stack.pop_back();
    }
    return done_.at(root.id());
  }
  std::vector<Tensor> expressions, values;  ///< as Python built them, and what is to be computed
  bool is_traced = false;                   ///< they read what only a running Step has

 private:
  Tensor rebuilt(const Tensor& x) {
    if (const auto* input = std::get_if<Input>(&x.node().op)) is_traced |= !input->storage && !input->variable;
    std::vector<Tensor> inputs;
    bool changed = false;
    for (const Tensor& input : x.inputs()) {
      inputs.push_back(done_.at(input.id()));
      changed |= inputs.back().id() != input.id();
    }
    return changed ? Tensor::make(x.node().op, std::move(inputs), x.shape(), x.dtype()) : x;
  }
  // Views and what is made from nothing cost more memory than time.
  void take(const Tensor& x, bool wanted) {
    const OpRole role = role_of(x.node().op);
    if (!wanted && (role == OpRole::leaf || role == OpRole::view)) return;
    expressions.push_back(x);
    values.push_back(done_.at(x.id()));
  }
  std::unordered_map<const Node*, Tensor> done_;
};

}  // namespace

Device& Device::named(const std::string& name) {
  static Device& cpu = *new Device("cpu");
  static Device& cuda = *new Device("cuda");
  if (name == "cpu") return cpu;
  check(name == "cuda", "device \"", name, "\" is unknown, expected cpu or cuda");
  return cuda;
}

const std::shared_ptr<Backend>& Device::shared_backend() {
  if (!backend_) backend_ = make_backend(name_);
  return backend_;
}

void Device::synchronize() {
  if (backend_) backend_->synchronize();
}

bool is_stored(const Tensor& value) {
  const auto* input = std::get_if<Input>(&value.node().op);
  return input && input->storage;
}

Value::Value(Tensor tensor, Device& device) : device_(&device) { take(std::move(tensor)); }
Value::~Value() { drop(); }

void Value::take(Tensor tensor) {
  tensor_ = std::move(tensor);
  if (is_stored(tensor_)) return;
  ++names()[tensor_.id()];
  expressions().insert(this);
}

// Lets go of the value, and of what was computed for it if nothing can ask for that any more.
void Value::drop() {
  const Node* id = tensor_.id();
  if (expressions().erase(this) > 0)
    if (const auto found = names().find(id); --found->second == 0) names().erase(found);
  tensor_ = Tensor();
  const auto value = computed().find(id);
  if (value != computed().end() && value->second.expression.expired()) computed().erase(value);
}

void Value::rebind(Tensor tensor) {
  drop();
  take(std::move(tensor));
}

const Tensor& Value::tensor() {
  if (differentiations == 0 && !is_stored(tensor_))
    if (const Tensor* value = computed_value(tensor_)) rebind(*value);
  return tensor_;
}

// Another thread may compute or rebind the array while this one waits.
Tensor Value::stored() {
  while (!is_stored(tensor_)) {
    if (const Tensor* found = computed_value(tensor_)) {
      Tensor value = *found;
      tensor();
      return value;
    }
    compute({this});
  }
  return tensor_;
}

void Value::compute(const std::vector<Value*>& values) {
  forget_expired();
  Unfinished work;
  Device* device = nullptr;
  for (Value* value : values) {
    if (is_stored(value->tensor_) || computed_value(value->tensor_)) continue;
    check(!device || device == value->device_, "compute: one array is on ", value->device_->name(), ", another on ",
          device ? device->name() : "");
    device = value->device_;
    work.add(value->tensor_);
  }
  if (!device) return;
  check(
      !work.is_traced,
      "this array has a value only while the compiled function runs: compute with it, but do not print it, convert it, "
      "or decide by it");
  Backend& backend = device->backend();
  std::vector<Tensor> results;
  {
    const pybind11::gil_scoped_release unlocked;
    results = evaluate(work.values, backend);
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    computed()[work.expressions[i].id()] = {work.expressions[i].handle(), results[i]};
  work = {};
  forget_histories();
}

void Value::synchronize() {
  for (const char* name : {"cpu", "cuda"}) {
    Device& device = Device::named(name);
    std::vector<Value*> values;
    for (Value* each : expressions()) {
      Unfinished work;
      if (each->device_ == &device && (work.add(each->tensor_), !work.is_traced)) values.push_back(each);
    }
    compute(values);
    const pybind11::gil_scoped_release unlocked;
    device.synchronize();
  }
}

// Values that contain what is computed read it from now on, so that what it was computed from goes.
void Value::forget_histories() {
  if (all_differentiations > 0) return;
  const std::vector<Value*> values(expressions().begin(), expressions().end());
  for (Value* value : values) value->tensor();
  forget_expired();
  if (computed().empty()) return;
  Unfinished parts;
  for (Value* value : values)
    if (!is_stored(value->tensor_)) value->rebind(parts.add(value->tensor_));
}

bool Differentiation::is_active() { return differentiations > 0; }
Differentiation::Differentiation() { ++differentiations, ++all_differentiations; }
Differentiation::~Differentiation() { --differentiations, --all_differentiations; }

Tracing::Tracing() { ++traces; }
bool Tracing::is_active() { return traces > 0; }
Tracing::~Tracing() { --traces; }

}  // namespace nixie::python
