// Functions of arrays as plans over another library's memory: a call takes addresses and makes no array.
#include <map>
#include <mutex>
#include <set>

#include "nixie/apps/python/arguments.h"
#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/graph/storage.h"
#include "nixie/core/passes/layout.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/core/step.h"

namespace nixie::python {
namespace {

using Address = std::uintptr_t;

// Memory whose address is another one in every call.
class Place final : public Buffer {
 public:
  using Buffer::Buffer;
  void* address() override { return at_; }
  /// 0 for an array of no elements.
  void set(std::uintptr_t address) { at_ = address == 0 ? nothing : reinterpret_cast<void*>(address); }

 private:
  alignas(256) static inline std::byte nothing[1];
  void* at_ = nothing;
};

struct Argument {
  Shape shape;
  Dtype dtype;
  bool is_set;  ///< the function gives it another value
};

class ExternalPlan {
 public:
  using Form = std::tuple<std::vector<std::int64_t>, DtypeArgument, bool>;

  // `function` takes the arguments as arrays and returns a list of results and one of the new values of those that are
  // set, in order.
  ExternalPlan(const py::function& function, const std::vector<Form>& forms, const std::string& device,
               const std::string& precision)
      : device_(Device::named(device)) {
    std::vector<Argument> arguments;
    for (const auto& [sizes, dtype, is_set] : forms) arguments.push_back({Shape(sizes), dtype.dtype, is_set});
    const Graph graph = prepare(trace(function, arguments), precision_named(precision));
    Backend& backend = device_.backend();
    for (const Tensor& output : graph.outputs) {
      const bool channels_last = has_variable_layout(output) && backend.target().channels_last;
      const Strides strides = channels_last ? output.shape().channels_last() : output.shape().row_major();
      result_forms_.emplace_back(py::cast(output.shape().sizes()), py::cast(strides), name_in_python(output.dtype()));
    }
    alignment_ = static_cast<Address>(backend.memory_place().alignment);
    const py::gil_scoped_release unlocked;
    const Graph rewritten = rewrite(graph, backend.target());
    plan_ = plan_of(rewritten, backend);
    executable_ = backend.compile(plan_);
    bind(rewritten, arguments);
  }

  // One address for each argument and result; work on `stream` before and after is in order with the plan's. False, and
  // nothing runs, if an argument must be copied first (misaligned).
  bool operator()(const std::vector<Address>& arguments, const std::vector<Address>& results, Address stream) {
    check(arguments.size() == arguments_.size() && results.size() == results_.size(), "the plan has ",
          arguments_.size(), " arguments and ", results_.size(), " results, given ", arguments.size(), " and ",
          results.size());
    const py::gil_scoped_release unlocked;
    check(misaligned(results).empty(), "a result begins at no multiple of ", alignment_, " bytes");
    if (!misaligned(arguments).empty()) return false;
    const std::lock_guard lock(running_);
    Backend& backend = device_.backend();
    set(arguments, arguments_);
    set(results, results_);
    auto* const at = reinterpret_cast<void*>(stream);
    backend.wait_for(at);
    executable_->run(externals_, plan_.scalars);
    backend.be_awaited_by(at);
    return true;
  }

  // The sizes, strides and type of each result in memory.
  const std::vector<std::tuple<py::tuple, py::tuple, std::string_view>>& results() const { return result_forms_; }
  // The arguments at addresses that no kernel reads; they must be copied first.
  std::vector<std::size_t> misaligned(const std::vector<Address>& addresses) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (addresses[i] % alignment_ != 0) found.push_back(i);
    return found;
  }
  std::vector<std::string> kernels() const {
    std::vector<std::string> labels;
    for (const Kernel& kernel : plan_.kernels) labels.push_back(kernel.label);
    return labels;
  }
  std::string text() const { return to_string(plan_); }

 private:
  static std::string name(std::size_t i) { return fmt::format("argument {}", i); }

  Graph trace(const py::function& function, const std::vector<Argument>& arguments) {
    Trace trace;
    py::list given;
    std::vector<Variable> set;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto& [shape, dtype, is_set] = arguments[i];
      if (is_set) {
        variables_.push_back(std::make_shared<VariableState>(
            VariableState{.name = name(i), .shape = shape, .dtype = dtype, .trainable = false}));
        set.emplace_back(variables_.back());
      }
      given.append(py::cast(
          make_value(is_set ? set.back().value() : Tensor::make(Input{.name = name(i)}, {}, shape, dtype), device_)));
    }
    py::list results, values;
    {
      const Tracing tracing;
      std::tie(results, values) = function(given).cast<std::pair<py::list, py::list>>();
    }
    Graph graph;
    for (const py::handle each : results) graph.outputs.push_back(each.cast<Value&>().tensor());
    check(values.size() == set.size(), "the function gives ", values.size(), " new values, expected ", set.size());
    for (std::size_t i = 0; i < set.size(); ++i) set[i].set(values[i].cast<Value&>().tensor());
    graph.sets = trace.sets();
    return graph;
  }

  // The external slots in the plan's order: leaves, results, and what is set and never read.
  void bind(const Graph& graph, const std::vector<Argument>& arguments) {
    std::map<std::string, std::shared_ptr<Place>> places;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      arguments_.push_back(places[name(i)] =
                               std::make_shared<Place>(arguments[i].shape.size() * size_of(arguments[i].dtype)));
    std::set<const VariableState*> read;
    for (const Tensor& leaf : leaves_of(graph)) {
      const auto& input = std::get<Input>(leaf.node().op);
      read.insert(input.variable.get());
      if (input.storage)
        externals_.push_back(input.storage->on(device_.backend()));
      else
        externals_.push_back(places.at(input.variable ? input.variable->name : input.name));
    }
    for (const Tensor& output : graph.outputs) {
      results_.push_back(std::make_shared<Place>(output.shape().size() * size_of(output.dtype())));
      externals_.push_back(results_.back());
    }
    for (const Trace::Set& set : graph.sets)
      if (!read.contains(set.variable.get())) externals_.push_back(places.at(set.variable->name));
  }

  static void set(const std::vector<Address>& addresses, const std::vector<std::shared_ptr<Place>>& places) {
    for (std::size_t i = 0; i < addresses.size(); ++i) places[i]->set(addresses[i]);
  }

  Device& device_;
  Plan plan_;
  std::unique_ptr<Executable> executable_;
  std::vector<std::shared_ptr<VariableState>> variables_;
  std::vector<std::shared_ptr<Place>> arguments_, results_;
  std::vector<std::tuple<py::tuple, py::tuple, std::string_view>> result_forms_;
  Address alignment_ = 1;
  std::vector<std::shared_ptr<Buffer>> externals_;
  std::mutex running_;
};

}  // namespace

template <>
inline constexpr bool is_class_of_python<ExternalPlan> = true;

void bind_external_plans(py::module_& module) {
  py::class_<ExternalPlan>(module, "ExternalPlan")
      .def(py::init<const py::function&, const std::vector<ExternalPlan::Form>&, const std::string&,
                    const std::string&>())
      .def("__call__", &ExternalPlan::operator())
      .def("misaligned", &ExternalPlan::misaligned)
      .def_property_readonly("results", &ExternalPlan::results)
      .def_property_readonly("kernels", &ExternalPlan::kernels)
      .def("__str__", &ExternalPlan::text);
}

}  // namespace nixie::python
