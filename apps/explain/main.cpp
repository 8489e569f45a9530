// explain: prints a net's layers, the graph of one training step, and a backend's plan for it.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "nixie/apps/explain/graph_text.h"
#include "nixie/apps/trainer/profile/layer_table.h"
#include "nixie/apps/trainer/program/arguments.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/trainer.h"
#include "nixie/backends/registry.h"
#include "nixie/core/state/graph_walk.h"

namespace {

using namespace nixie;

struct Request {
  std::string model, backend = "null", chip;
  std::vector<std::string> assignments;
  std::int64_t batch = 16;
  std::vector<std::int64_t> sample;  // C, H, W
  bool graph = false, plan = false;
};

/// The images that a net was made for.
std::vector<std::int64_t> usual_sample(const std::string& model) {
  if (model == "mlp" || model == "lenet") return {1, 28, 28};
  if (model == "overfeat") return {3, 231, 231};
  return {3, 224, 224};
}

/// A configuration file, or a model by name on images of its size.
TrainConfig config_of(const Request& request) {
  if (request.model.ends_with(".yaml")) return load_config(request.model, request.assignments);
  Tree tree = parse_yaml("data: generated\nsteps: 1\n", "explain");
  override_yaml(tree, "model=" + request.model);
  for (const std::string& assignment : request.assignments) override_yaml(tree, assignment, {"model", "optimizer"});
  TrainConfig config = read_config(tree);
  config.places = {};  // of no file
  const std::vector<std::int64_t> sample = request.sample.empty() ? usual_sample(config.model.kind()) : request.sample;
  check(sample.size() == 3, "--input has ", sample.size(), " numbers, expected channels, height and width");
  config.data = Generated{.channels = sample[0],
                          .height = sample[1],
                          .width = sample[2],
                          .train = request.batch,
                          .test = 1,
                          .batch = request.batch};
  return config;
}

void explain(const Request& request) {
  const TrainConfig config = config_of(request);
  Trainer trainer(config,
                  {.backend = request.chip.empty() ? make_backend(request.backend) : make_planner(request.chip)});
  const Shape sample = trainer.model().input_shape();
  std::vector<std::int64_t> input = {config.data.batch()};
  input.insert(input.end(), sample.begin(), sample.end());
  tell("{}\n{} parameters in {} arrays\n", layer_table(config.model, Shape(input)),
       trainer.model().parameters().count(), trainer.model().parameters().trainable().size());
  const Graph graph = trainer.graph();
  const std::size_t nodes = topological(graph).size();
  tell("\none training step of batch {}: {} graph nodes\n", config.data.batch(), nodes);
  if (request.graph) tell("{}", graph_text(graph));
  const Plan& plan = trainer.plan();
  const auto in_arena = std::count_if(plan.slots.begin(), plan.slots.end(), [](const Slot& s) { return !s.external; });
  tell("\nplan for {}: {} kernels, {} slots ({} in an arena of {} bytes)\n",
       request.chip.empty() ? request.backend : request.chip, plan.kernels.size(), plan.slots.size(), in_arena,
       plan.arena_bytes);
  if (request.plan) tell("{}", to_string(plan));
  if (!request.chip.empty()) tell("\n{}", kernel_table(plan, request.chip));
}

}  // namespace

int main(int argc, char** argv) {
  begin_program();
  Request request;
  CLI::App app("Shows a net's layers, the graph of one training step, and the plan a backend makes of it.", "explain");
  app.add_option("MODEL", request.model, "a model's name (alexnet), or a configuration (configs/alexnet.yaml)")
      ->required();
  app.add_option("--batch", request.batch, "samples of the step, for a model by name")->check(CLI::Range(1, 1'000'000));
  app.add_option("--input", request.sample, "channels,height,width, for a model by name")->delimiter(',');
  app.add_option("--set", request.assignments, "key.path=value: changes the configuration")->allow_extra_args(false);
  CLI::Option* backend = app.add_option("--backend", request.backend, "null, cpu or cuda: whose plan");
  app.add_option("--chip", request.chip,
                 "a GPU by name (H200, sm_89), which need not be there: CUDA's kernels for it, and the times by which "
                 "they are chosen")
      ->excludes(backend);
  app.add_flag("--graph", request.graph, "list the graph's nodes");
  app.add_flag("--plan", request.plan, "list the plan's slots and kernels");
  bool prices = false;
  app.add_flag_callback(
      "--prices", [&] { prices = true, throw CLI::Success(); },
      "print the rates by which CUDA kernels are chosen, of every known GPU, and nothing else");
  return exit_code_of(Output::result, [&] {
    try {
      parse_arguments(app, {argv + 1, argv + argc});
    } catch (const CLI::ParseError& error) {
      if (prices) return tell("{}", kernel_prices()), 0;
      return app.exit(error) == 0 ? 0 : static_cast<int>(Fault::usage);
    }
    return explain(request), 0;
  });
}
