// Functions of functions: nixie.compile, a Step for each form of the arguments, and gradients.
#include <mutex>
#include <unordered_map>

#include "nixie/apps/python/arguments.h"
#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"

namespace nixie::python {
namespace {

// ---- trees: tuples, lists and dictionaries with arrays at their ends ----
template <class Visit>
void visit_ends(py::handle tree, const Visit& visit) {
  if (PyTuple_Check(tree.ptr()) || PyList_Check(tree.ptr())) {
    for (const py::handle each : tree) visit_ends(each, visit);
  } else if (PyDict_Check(tree.ptr())) {
    for (const auto& [key, each] : py::reinterpret_borrow<py::dict>(tree)) visit_ends(each, visit);
  } else {
    visit(tree);
  }
}

// The tree with other ends: those for which `replace` gives one.
template <class Replace>
py::object rebuilt(py::handle tree, const Replace& replace) {
  if (PyTuple_Check(tree.ptr())) {
    py::tuple items(py::len(tree));
    std::size_t i = 0;
    for (const py::handle each : tree) items[i++] = rebuilt(each, replace);
    return py::hasattr(tree, "_fields") ? py::type::of(tree)(*items) : py::object(items);
  }
  if (PyList_Check(tree.ptr())) {
    py::list items;
    for (const py::handle each : tree) items.append(rebuilt(each, replace));
    return items;
  }
  if (PyDict_Check(tree.ptr())) {
    py::dict items;
    for (const auto& [key, each] : py::reinterpret_borrow<py::dict>(tree)) items[key] = rebuilt(each, replace);
    return items;
  }
  return replace(tree);
}

std::vector<Value*> arrays_of(py::handle tree) {
  std::vector<Value*> arrays;
  visit_ends(tree, [&](py::handle end) {
    if (Value* array = array_of(end)) arrays.push_back(array);
  });
  return arrays;
}

py::object with_arrays(py::handle tree, const std::function<py::object()>& next) {
  return rebuilt(tree,
                 [&](py::handle end) { return array_of(end) ? next() : py::reinterpret_borrow<py::object>(end); });
}

// ---- compiled functions ----
template <class T>
void append(std::string& key, T number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Objects of Python that are no arrays, without a look-up of their attributes.
bool is_plain_constant(py::handle object) {
  return object.is_none() || PyLong_Check(object.ptr()) || PyUnicode_Check(object.ptr());
}

// What a call is given: its arrays, and a text that is equal for calls that share a plan.
struct Call {
  std::string key;
  std::vector<Value*> arrays;
  std::vector<py::object> made;  ///< arrays of Python's and numpy's numbers
  Device* device = nullptr;

  // A float is an input of the plan, and so are other libraries' arrays; other objects are constants of the function.
  void add(py::handle object, const py::dict& constants) {
    if (Value* array = array_of(object)) {
      add_array(*array);
    } else if (PyFloat_Check(object.ptr())) {
      made.push_back(
          py::cast(make_value(Array::from(std::vector<float>{static_cast<float>(PyFloat_AS_DOUBLE(object.ptr()))}, {}),
                              device ? *device : Device::standard())));
      add_array(made.back().cast<Value&>());
    } else if (!is_plain_constant(object) && has_dlpack_alone(object)) {
      // Its memory, without a copy: the plan reads it before what is written there later.
      made.push_back(py::cast(from_dlpack_object(py::reinterpret_borrow<py::object>(object), {})));
      add_array(made.back().cast<Value&>());
    } else if (!is_plain_constant(object) && is_of_numpy(object)) {
      made.push_back(py::cast(from_numpy(object, {}, device ? *device : Device::standard())));
      add_array(made.back().cast<Value&>());
    } else if (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) {
      key += PyTuple_Check(object.ptr()) ? '(' : '[';
      for (const py::handle each : object) add(each, constants);
      key += ')';
    } else if (PyDict_Check(object.ptr())) {
      key += '{';
      for (const auto& [name, each] : py::reinterpret_borrow<py::dict>(object)) {
        add_constant(py::reinterpret_borrow<py::object>(name), constants);
        add(each, constants);
      }
      key += '}';
    } else {
      add_constant(py::reinterpret_borrow<py::object>(object), constants);
    }
  }

 private:
  void add_array(Value& value) {
    check(!device || device == &value.device(), "one argument is on ", device ? device->name() : "", ", another on ",
          value.device().name(), "; move one by to_device");
    device = &value.device();
    key += 'A';
    key += static_cast<char>(value.dtype());
    key += static_cast<char>(value.shape().rank());
    for (const std::int64_t size : value.shape()) append(key, size);
    arrays.push_back(&value);
  }
  void add_constant(const py::object& object, const py::dict& constants) {
    const py::tuple typed = py::make_tuple(py::type::of(object), object);  // 1 equals True
    key += 'C';
    append(key, constants.attr("setdefault")(typed, constants.size()).cast<std::int64_t>());
  }
};

class Compiled {
 public:
  Compiled(py::function function, PrecisionPolicy precision) : function_(std::move(function)), precision_(precision) {}

  py::object operator()(const py::args& args, const py::kwargs& kwargs) {
    if (Tracing::is_active() || Differentiation::is_active())
      return function_(*args, **kwargs);  // a part of another expression
    Call call;
    for (const py::handle each : args) call.add(each, constants_);
    if (!kwargs.empty()) call.add(kwargs, constants_);
    Device& device = call.device ? *call.device : Device::standard();
    call.key += device.name();
    std::unique_ptr<Plan>& plan = plans_[call.key];
    if (!plan) plan = std::make_unique<Plan>();
    if (!plan->step)
      plan->step.emplace(
          device.backend(), [this, &device, plan = plan.get()](const Inputs& in) { return trace(*plan, in, device); },
          precision_);
    std::map<std::string, Tensor> inputs;
    for (std::size_t i = 0; i < call.arrays.size(); ++i)
      inputs.emplace_hint(inputs.end(), name(i), call.arrays[i]->stored());
    Outputs outputs = run(*plan, inputs, args, kwargs);
    auto next = outputs.begin();
    return with_arrays(plan->result, [&] { return py::cast(make_value((next++)->second, device)); });
  }
  std::size_t plans() const { return plans_.size(); }

 private:
  struct Plan {
    std::optional<Step> step;
    std::recursive_mutex running;  ///< one thread at a time; a function that calls itself gets the Step's error
    const py::args* args = nullptr;
    const py::kwargs* kwargs = nullptr;
    py::object result;  ///< what the function returned, with the arrays of the trace
  };

  static const std::string& name(std::size_t i) {
    static std::vector<std::string>& names = *new std::vector<std::string>;
    while (names.size() <= i) names.push_back(fmt::format("argument {:04}", names.size()));
    return names[i];
  }

  static Outputs run(Plan& plan, const std::map<std::string, Tensor>& inputs, const py::args& args,
                     const py::kwargs& kwargs) {
    const py::gil_scoped_release unlocked;
    const std::lock_guard lock(plan.running);
    plan.args = &args;
    plan.kwargs = &kwargs;
    return (*plan.step)(inputs);
  }

  Outputs trace(Plan& plan, const Inputs& in, Device& device) {
    const py::gil_scoped_acquire locked;
    const Tracing tracing;
    std::size_t i = 0;
    const auto next = [&] { return py::cast(make_value(in[name(i++)], device)); };
    const auto replace = [&](py::handle end) {
      const bool is_input = array_of(end) || PyFloat_Check(end.ptr()) ||
                            (!is_plain_constant(end) && (has_dlpack_alone(end) || is_of_numpy(end)));
      return is_input ? next() : py::reinterpret_borrow<py::object>(end);
    };
    const py::object args = rebuilt(*plan.args, replace), kwargs = rebuilt(*plan.kwargs, replace);
    plan.result = function_(*py::tuple(args), **py::dict(kwargs));
    Outputs outputs;
    for (Value* value : arrays_of(plan.result))
      outputs.emplace(fmt::format("result {:04}", outputs.size()), value->tensor());
    check(!outputs.empty(),
          "the compiled function returns no array, and what it changes is not kept; return the arrays");
    return outputs;
  }

  py::function function_;
  PrecisionPolicy precision_;
  py::dict constants_;
  std::unordered_map<std::string, std::unique_ptr<Plan>> plans_;
};

// What a gradient is taken with respect to: a node of its own, so that other uses of the same value do not count. Plans
// have none.
const Elementwise argument{"argument", [](auto x) { return x; },
                           [](const Tensor& g, const Tensor&, const Tensor&) { return Gradients{g}; },
                           ElementwiseTraits{.domain = {}, .is_listed = false}};

}  // namespace

template <>
inline constexpr bool is_class_of_python<Compiled> = true;

void bind_functions(py::module_& module) {
  py::class_<Compiled>(module, "Compiled", py::dynamic_attr())
      .def(py::init([](py::function function, const std::string& precision) {
        return std::make_unique<Compiled>(std::move(function), precision_named(precision));
      }))
      .def("__call__", &Compiled::operator())
      .def("__get__",
           [](py::object self, py::object object, py::handle) {
             return object.is_none() ? self : py::module_::import("types").attr("MethodType")(self, object);
           })
      .def_property_readonly("plans", &Compiled::plans);

  module.def("differentiate", [](const py::function& function) {
    const Differentiation scope;
    return function();
  });
  module.def("is_tracing", &Tracing::is_active);
  // Whether what is built now can be computed at once: it is no part of a trace or of another gradient.
  module.def("is_outermost", [] { return !Tracing::is_active() && !Differentiation::is_active(); });
  module.def("compute", [](const std::vector<Value*>& values) { Value::compute(values); });
  module.def("synchronize", &Value::synchronize);
  module.def("gradients", [](Value& loss, const std::vector<Value*>& arguments) {
    std::vector<Tensor> with_respect_to;
    for (Value* each : arguments) with_respect_to.push_back(each->tensor());
    std::vector<std::unique_ptr<Value>> found;
    for (Tensor& each : gradients(loss.tensor(), with_respect_to))
      found.push_back(make_value(std::move(each), loss.device()));
    return found;
  });
  module.def("arguments", [](py::handle tree) {
    py::list made;
    const py::object result = rebuilt(tree, [&](py::handle end) {
      const auto found = operand(end);
      if (!found || PyBool_Check(end.ptr()) || PyLong_Check(end.ptr())) return py::reinterpret_borrow<py::object>(end);
      const Tensor each = argument(found->tensor);
      Device& device = found->device ? *found->device : Device::standard();
      made.append(
          py::cast(make_value(each, device)));  // a handle of its own: the function may give the array another value
      return py::cast(make_value(each, device));
    });
    return py::make_tuple(result, made);
  });
  module.def("leaves", [](py::handle tree) {
    py::list ends;
    visit_ends(tree, [&](py::handle end) { ends.append(end); });
    return ends;
  });
  module.def("tree_map", [](const py::function& function, py::handle tree, const py::args& others) {
    std::vector<py::iterator> further;
    std::vector<py::list> ends;
    for (const py::handle other : others) {
      ends.emplace_back();
      visit_ends(other, [&](py::handle end) { ends.back().append(end); });
    }
    std::size_t i = 0;
    return rebuilt(tree, [&](py::handle end) -> py::object {
      py::list arguments;
      arguments.append(end);
      for (const py::list& each : ends) {
        check(i < each.size(), "tree_map: one tree has fewer ends than the first");
        arguments.append(each[i]);
      }
      ++i;
      return function(*py::tuple(arguments));
    });
  });
}

}  // namespace nixie::python
