// Nets, losses and optimizers by their names in a configuration. Their options come as the text of one, so that ranges,
// defaults and errors are those of the trainer.
#include <pybind11/stl/filesystem.h>

#include <algorithm>

#include "nixie/apps/python/arguments.h"
#include "nixie/apps/python/net.h"
#include "nixie/configs/parse/values.h"
#include "nixie/layers/metric.h"
#include "nixie/models/io/safetensors.h"
#include "nixie/models/io/save.h"
#include "nixie/models/io/weights.h"

namespace nixie::python {
namespace {

/// A value of a configuration: `{resnet18: {classes: 10}}`. Errors are one line.
template <class T>
T parsed(const std::string& text) {
  const Tree tree = parse_yaml("options: " + text, "options");
  T value;
  Problems problems;
  read_value(*tree.find("options"), value, problems);
  std::string found = problems.text();
  std::replace(found.begin(), found.end(), '\n', ';');
  check(problems.empty(), found);
  return value;
}

template <class... T>
std::vector<std::string> names_of(Types<T...>) {
  return {T::name...};
}

const Variable& variable_of(const Net& net, const std::string& name) {
  for (const Variable& each : net.model.parameters().all())
    if (each.name() == name) return each;
  fail(Fault::usage, "the net has no parameter \"", name, "\"; state() lists them");
}

// Arrays of a dictionary by name, each with its own type.
py::dict state_of(const Net& net, const std::string& device) {
  py::dict arrays;
  for (const Variable& each : net.model.parameters().all())
    arrays[each.name().c_str()] = py::cast(make_value(each.value(), Device::named(device)));
  return arrays;
}

Optimizer make_optimizer(const Net& net, const std::string& rule, const std::optional<std::string>& schedule,
                         double steps, double clip_norm) {
  OptimizerOptions options{.rule = parsed<AnyOptimizer>(rule), .clip_norm = clip_norm};
  if (schedule) options.schedule = parsed<AnySchedule>(*schedule);
  return Optimizer(net.model.parameters(), options, {.steps_per_epoch = 1, .epochs = steps});
}

}  // namespace

template <>
inline constexpr bool is_class_of_python<Optimizer> = true;

void bind_models(py::module_& module) {
  py::class_<Net>(module, "Net")
      .def(py::init([](const std::string& text, const std::vector<std::int64_t>& shape, std::uint64_t seed) {
        return std::make_unique<Net>(Net{Model(parsed<AnyModel>(text), Shape(shape), seed), seed});
      }))
      .def("__call__",
           [](const Net& self, const Operand& x, bool training, const Operand& step) {
             Pass pass{.training = training, .step = step.tensor, .seed = self.seed};
             return make_value(self.model(x.tensor, pass), common_device({&x, &step}));
           })
      .def("state", &state_of)
      .def("set",
           [](const Net& self, const std::string& name, Value& value) { variable_of(self, name).set(value.stored()); })
      .def("output_shape", [](const Net& self) { return self.model.output_shape().sizes(); })
      .def("count", [](const Net& self) { return self.model.parameters().count(); })
      .def("save", [](const Net& self, const std::filesystem::path& path) { save(self.model, path); })
      .def("save_safetensors",
           [](const Net& self, const std::filesystem::path& path) {
             Safetensors file;
             for (const Variable& each : self.model.parameters().all())
               file.arrays.emplace(each.name(), each.value().array());
             save_safetensors(file, path);
           })
      .def("load", [](const Net& self, const std::filesystem::path& path) { load(self.model, path); })
      .def("init_from", [](const Net& self, const std::filesystem::path& path) {
        return to_string(set_weights(self.model.parameters(), read_weights(path), path));
      });
  py::class_<Optimizer>(module, "Optimizer")
      .def(py::init(&make_optimizer))
      .def("minimize", [](const Optimizer& self, Value& loss) { self.minimize(loss.tensor()); })
      .def("count", [](const Optimizer& self,
                       const std::string& device) { return make_value(self.count().value(), Device::named(device)); })
      .def("save", [](const Optimizer& self, const Net& net,
                      const std::filesystem::path& path) { save(net.model, self, path); })
      .def("load", [](const Optimizer& self, const Net& net, const std::filesystem::path& path) {
        load(net.model, self, path);
      });
  module.def("loss", [](const std::string& text, const Operand& output, const Operand& target,
                        const std::optional<Operand>& weights) {
    return make_value(parsed<AnyLoss>(text)(output.tensor, target.tensor, weights ? weights->tensor : Tensor()),
                      common_device({&output, &target}));
  });
  module.def("accuracy", [](const Operand& output, const Operand& labels) {
    return make_value(accuracy(output.tensor, labels.tensor), common_device({&output, &labels}));
  });
  module.def("net_names", [] { return names_of(AllModels()); });
}

}  // namespace nixie::python
