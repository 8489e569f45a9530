// The trainer of a configuration, whose callbacks are a function of Python, and nets of its checkpoints.
#include "nixie/apps/trainer/trainer.h"

#include <pybind11/stl/filesystem.h>

#include "nixie/apps/python/arguments.h"
#include "nixie/apps/python/net.h"
#include "nixie/apps/trainer/trained_model.h"

namespace nixie::python {
namespace {

py::dict dictionary(const Interval& interval) {
  return py::dict(py::arg("epoch") = interval.epoch, py::arg("step") = interval.step, py::arg("loss") = interval.loss,
                  py::arg("accuracy") = interval.accuracy, py::arg("rate") = interval.rate);
}

py::dict dictionary(const Evaluation& evaluation) {
  py::dict figures(py::arg("loss") = evaluation.loss, py::arg("accuracy") = evaluation.accuracy,
                   py::arg("samples") = evaluation.samples);
  for (const auto& [name, value] : evaluation.metrics) figures[name.c_str()] = value;
  return figures;
}

/// Calls tell(event, ...) for each event of a run.
class Teller : public Callback {
 public:
  explicit Teller(py::function tell) : tell_(std::move(tell)) {}
  void train_begins(Trainer&) override { say("train_begins"); }
  void epoch_begins(Trainer&, std::int64_t epoch) override { say("epoch_begins", epoch); }
  void step_ends(Trainer&, std::int64_t step) override { say("step_ends", step); }
  void interval_ends(Trainer&, const Interval& interval) override { say("interval_ends", interval); }
  void evaluation_ends(Trainer&, const Evaluation& evaluation) override { say("evaluation_ends", evaluation); }
  void save_begins(Trainer&, const std::vector<std::string>& files) override { say("save_begins", files); }
  void epoch_ends(Trainer&, std::int64_t epoch) override { say("epoch_ends", epoch); }
  void train_ends(Trainer&, bool is_done) override { say("train_ends", is_done); }

 private:
  template <class... About>
  void say(const char* event, const About&... about) {
    const py::gil_scoped_acquire locked;
    if constexpr ((requires { dictionary(about); } && ...) && sizeof...(About) > 0)
      tell_(event, dictionary(about)...);
    else
      tell_(event, about...);
  }
  py::function tell_;
};

TrainConfig config_of(const std::string& text, bool is_path, const std::vector<std::string>& assignments) {
  return is_path ? load_config(std::filesystem::path(text), assignments) : parse_config(text, "config", assignments);
}

Device& device_of(const TrainConfig& config) {
  if (config.backend != "auto") return Device::named(config.backend);
  try {
    Device::named("cuda").backend();
    return Device::named("cuda");
  } catch (const Error& error) {
    if (error.fault() != Fault::device) throw;
    return Device::standard();
  }
}

std::unique_ptr<Trainer> make_trainer(const TrainConfig& config, const std::filesystem::path& run, py::function tell) {
  return std::make_unique<Trainer>(config, TrainerOptions{.run = run,
                                                          .backend = device_of(config).shared_backend(),
                                                          .callbacks = {std::make_shared<Teller>(std::move(tell))}});
}

// Ctrl-C ends the run after a step, as a request to stop does, and then raises KeyboardInterrupt.
bool train(Trainer& trainer) {
  std::optional<py::error_already_set> interrupt;
  const auto stop = [&] {
    const py::gil_scoped_acquire locked;
    if (!interrupt && PyErr_CheckSignals() != 0) interrupt.emplace();
    return interrupt.has_value();
  };
  bool is_done = false;
  {
    const py::gil_scoped_release unlocked;
    is_done = trainer.train(stop);
  }
  if (interrupt) throw *interrupt;
  return is_done;
}

}  // namespace

template <>
inline constexpr bool is_class_of_python<Trainer> = true;

void bind_trainer(py::module_& module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  py::class_<Trainer>(module, "Trainer")
      .def(py::init([](const std::string& text, bool is_path, const std::vector<std::string>& assignments,
                       const std::filesystem::path& run, py::function tell) {
        return make_trainer(config_of(text, is_path, assignments), run, std::move(tell));
      }))
      .def("train", &train)
      .def("stop", &Trainer::stop)
      .def(
          "resume",
          [](Trainer& self, const std::optional<std::filesystem::path>& path) {
            path ? self.resume(FilePlace(*path)) : self.resume();
          },
          unlocked)
      .def("evaluate",
           [](Trainer& self) {
             Evaluation evaluation;
             {
               const py::gil_scoped_release release;
               evaluation = self.evaluate();
             }
             return dictionary(evaluation);
           })
      .def("net",
           [](const Trainer& self) {
             return std::make_unique<Net>(Net{self.model(), self.config().seed});
           })
      .def("summary", &Trainer::summary)
      .def("step", &Trainer::step)
      .def("total_steps", &Trainer::total_steps)
      .def("config", [](const Trainer& self) { return config_text(self.config()); });
  module.def("load_trained", [](const std::filesystem::path& path) {
    const TrainedModel trained = load_trained(path);
    return std::make_pair(std::make_unique<Net>(Net{trained.model, trained.config.seed}), trained.class_names);
  });
}

}  // namespace nixie::python
