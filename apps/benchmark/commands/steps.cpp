// Times the steps of a net and checks that they trained it.
#include "nixie/apps/benchmark/commands/steps.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/nets.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/program/subprocess.h"
#include "nixie/backends/registry.h"
#include "nixie/core/base/random.h"
#include "nixie/core/step.h"
#include "nixie/layers/loss.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie::benchmark {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepTiming, net, batch, parameters, runs, median_ms, min_ms, max_ms,
                                   images_per_second, peak_mb, start_mb, first_loss, lowest_loss)

namespace {

constexpr std::uint64_t kSeed = 1;
constexpr int kWarmup = 3;

/// A net, its optimizer and one random batch, in the backend's memory.
class Training {
 public:
  Training(Backend& backend, const Net& net, int batch, double rate)
      : backend_(backend),
        model_(net.model, {batch, net.sample[0], net.sample[1], net.sample[2]}, kSeed),
        optimizer_(model_.parameters(), {.rule = Sgd{.momentum = 0.9}, .schedule = ConstantRate{.rate = rate}}),
        step_(backend, [this](const Inputs& in) { return body(in); }) {
    const Tensor images = uniform({batch, net.sample[0], net.sample[1], net.sample[2]}, random_stream(kSeed, "images"));
    const Tensor labels = cast(uniform({batch}, random_stream(kSeed, "labels")) * net.classes, Dtype::i32);
    const std::vector<Tensor> stored = evaluate({images, labels}, backend);
    inputs_ = {{"images", stored[0]}, {"labels", stored[1]}};
  }

  /// Milliseconds of one step; its loss comes after them.
  double timed_step() {
    const auto start = std::chrono::steady_clock::now();
    const Outputs outputs = step_(inputs_);
    backend_.synchronize();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    loss_ = outputs.at("loss").item();
    if (!std::isfinite(loss_)) fail(Fault::non_finite, "the loss of a timed step is ", loss_, "; try a smaller --rate");
    return taken.count();
  }
  double loss() const { return loss_; }
  std::int64_t parameters() const { return model_.parameters().count(); }

 private:
  Outputs body(const Inputs& in) const {
    Pass pass;
    const Tensor loss = cross_entropy(model_(in["images"], pass), in["labels"]);
    optimizer_.update(gradients(loss, model_.parameters()));
    return {{"loss", loss}};
  }

  Backend& backend_;
  Model model_;
  Optimizer optimizer_;
  Step step_;
  std::map<std::string, Tensor> inputs_;
  double loss_ = 0;
};

/// As many as fill two seconds: quick steps vary more.
int runs_for(double step_ms) { return std::clamp(static_cast<int>(2000 / step_ms), 20, 200); }

StepTiming time_net(const Net& net, const StepsCommand& command) {
  constexpr double kMegabyte = 1e6;
  const int batch = command.batch > 0 ? command.batch : net.batch;
  StepTiming row{.net = net.name, .batch = batch, .start_mb = static_cast<double>(peak_memory_bytes()) / kMegabyte};
  const std::shared_ptr<Backend> backend = make_backend(command.backend, command.threads);
  Training training(*backend, net, batch, command.rate);
  training.timed_step();  // compiles the plan
  row.first_loss = training.loss();
  double warm_ms = 0;
  for (int i = 0; i < kWarmup; ++i) warm_ms = training.timed_step();
  std::vector<double> times(static_cast<std::size_t>(command.runs > 0 ? command.runs : runs_for(warm_ms)));
  row.lowest_loss = row.first_loss;
  for (double& time : times) {
    time = training.timed_step();
    row.lowest_loss = std::min(row.lowest_loss, training.loss());
  }
  const Timing timing = summarize(times);
  row.parameters = training.parameters();
  row.runs = timing.runs;
  row.median_ms = timing.median;
  row.min_ms = timing.min;
  row.max_ms = timing.max;
  row.images_per_second = batch / row.median_ms * 1e3;
  row.peak_mb = static_cast<double>(peak_memory_bytes()) / kMegabyte;
  // Not the last: at a rate that jumps about, it depends on how many steps the time allowed.
  if (row.lowest_loss >= row.first_loss)
    fail(Fault::non_finite, "the loss never fell below its first value, ", row.first_loss, ", in ", row.runs + kWarmup,
         " steps on one batch, so the steps that were timed do not train; try another --rate");
  return row;
}

void print_row(const StepTiming& row) {
  tell("{:<10} {:>5} {:>11} {:>5} {:>10.3f} {:>9.3f} {:>9.3f} {:>9.0f} {:>8.0f} {:>9.0f}   {:.3f} -> {:.3f}\n", row.net,
       row.batch, row.parameters, row.runs, row.median_ms, row.min_ms, row.max_ms, row.images_per_second, row.peak_mb,
       row.start_mb, row.first_loss, row.lowest_loss);
  std::fflush(stdout);
}

bool is_wanted(const Net& net, const StepsCommand& command) {
  return command.nets.empty() || std::count(command.nets.begin(), command.nets.end(), net.name) != 0;
}

}  // namespace

void run_steps(const StepsCommand& command) {
  Report report("steps", command.json);
  // Asked of a child: this process must stay without threads and devices to be forked.
  const std::string machine = run_apart(
      "backend", [&] { return machine_text(*make_backend(command.backend, command.threads), command.threads); });
  report.set("program", machine);
  tell("{}, {}\n{:<10} {:>5} {:>11} {:>5} {:>10} {:>9} {:>9} {:>9} {:>8} {:>9}   {}\n", processor_text(), machine,
       "net", "batch", "parameters", "runs", "median ms", "min ms", "max ms", "images/s", "peak MB", "start MB",
       "loss");
  for (const Net& net : step_nets()) {
    if (!is_wanted(net, command)) continue;
    const auto row =
        nlohmann::json::parse(run_apart(net.name, [&] { return nlohmann::json(time_net(net, command)).dump(); }));
    print_row(row.get<StepTiming>());
    report.add_row(row);
  }
}

}  // namespace nixie::benchmark
