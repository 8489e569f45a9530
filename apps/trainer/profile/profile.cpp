// A run without a folder is what is timed: the trainer's own step with the configuration's own data. Chrome's trace has
// complete events ("X") in microseconds, and a thread of the viewer for each kind of row.
#include "nixie/apps/trainer/profile/profile.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/program/machine.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/trainer.h"
#include "nixie/backends/registry.h"

namespace nixie {
namespace {

constexpr int kWarmSteps = 3;      // the first compiles, the next ones may capture
constexpr int kRecordedSteps = 7;  // so do the first of each kernel by itself; the median is of the others
constexpr std::size_t kMostKernels = 15;

void train_for(Trainer& trainer, std::int64_t steps) {
  const std::int64_t last = trainer.step() + steps;
  trainer.train([&] { return trainer.step() >= last; });
}

double megabytes(double bytes) { return bytes / 1e6; }

/// `3.21`, or nothing where there is no such work.
std::string ms_text(double ms) { return ms > 0 ? fmt::format("{:.3f}", ms) : "-"; }

std::string percent_text(double share) { return share > 0 ? fmt::format("{:.0f} %", 100 * share) : "-"; }

std::string kernel_table(const Profile& profile) {
  struct Row {
    double ms;
    Work work;
    const GroupRecord* group;
  };
  std::vector<Row> rows;
  double total = 0;
  for (const PlanRecord& plan : profile.kernels)
    for (const GroupRecord& group : plan) {
      rows.push_back({summarize(group.ms).median, work_of_group(group.piece.plan), &group});
      total += rows.back().ms;
    }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ms > b.ms; });
  std::string text = fmt::format("kernels of one step as they run in it, {} of {} ({:.3f} ms together)\n",
                                 std::min(rows.size(), kMostKernels), rows.size(), total);
  text += fmt::format("{:>10} {:>8} {:>9} {:>9} {:>12}  {}\n", "ms", "of step", "GFLOP", "MB", "of roofline", "what");
  for (std::size_t i = 0; i < std::min(rows.size(), kMostKernels); ++i) {
    const auto& [ms, work, group] = rows[i];
    text += fmt::format("{:10.3f} {:>8} {:9.3f} {:9.2f} {:>12}  {}{}\n", ms, percent_text(ms / total), work.flop / 1e9,
                        megabytes(work.bytes), percent_text(profile.rates.least_ms(work) / std::max(ms, 1e-9)),
                        group->piece.name, group->algorithm.empty() ? "" : " as " + group->algorithm);
  }
  return text;
}

/// Steps under the clock, then by kernel.
void train_timed(Trainer& trainer, RecordingBackend& recording, const std::function<void(const std::string&)>& say,
                 Profile& profile) {
  train_for(trainer, kWarmSteps);
  recording.synchronize();
  const auto start = std::chrono::steady_clock::now();
  train_for(trainer, profile.steps);
  recording.synchronize();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  profile.step_ms = 1e3 * seconds / profile.steps;
  profile.data_wait = std::min(1.0, trainer.seconds_waited() / seconds);
  say("trains kernel by kernel");
  recording.record(true);
  train_for(trainer, kRecordedSteps);
  recording.record(false);
  profile.kernels = recording.records();
  profile.parameter_bytes = bytes_of(trainer.model().parameters());
  profile.optimizer_bytes = bytes_of(trainer.optimizer().state());
  profile.arena_bytes = trainer.plan().arena_bytes;
}

enum Row : int { kKernels = 1, kForward, kBackward, kUpdate };

nlohmann::json name_of_row(Row row, const char* name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", row}, {"args", {{"name", name}}}};
}

nlohmann::json event(const std::string& name, Row row, double start_ms, double ms, const Work& work,
                     const MachineRates& rates) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", 1},
          {"tid", row},
          {"ts", 1e3 * start_ms},
          {"dur", 1e3 * ms},
          {"args",
           {{"gflop", work.flop / 1e9},
            {"megabytes", work.bytes / 1e6},
            {"share_of_roofline", ms > 0 ? rates.least_ms(work) / ms : 0}}}};
}

}  // namespace

TrainConfig bare_run(TrainConfig config, std::int64_t steps) {
  constexpr std::int64_t kNever = 1'000'000'000;
  config.epochs = 0;
  config.steps = steps;
  config.log_every = config.evaluate_every = kNever;
  config.save_every = config.keep = 0;
  config.patience = 0;
  return config;
}

Profile take_profile(const TrainConfig& config, int steps, const std::function<void(const std::string&)>& tell) {
  const auto say = [&](const std::string& line) {
    if (tell) tell(line);
  };
  const std::shared_ptr<Backend> backend = make_backend(config.backend, config.threads);
  const auto recording = std::make_shared<RecordingBackend>(backend);
  Profile profile{.machine = machine_text(*backend, config.threads), .steps = steps};
  profile.batch = config.data.batch() * config.accumulate;
  say("measures the machine");  // before the rest takes its memory
  profile.rates = measure_rates(*backend, config.policy());
  Trainer trainer(bare_run(config, 1'000'000'000), {.backend = recording, .reads_init_from = false});
  trainer.take_memory();
  say("trains");
  within_batch(config, [&] { train_timed(trainer, *recording, say, profile); });
  within_batch(config, [&] { profile.layers = time_layers(*backend, config, trainer.model().batch_shape(), say); });
  return profile;
}

std::string layer_times_text(const std::vector<LayerTimes>& layers, const MachineRates& rates) {
  double total = 0;
  for (const LayerTimes& layer : layers) total += layer.ms();
  std::string text = fmt::format("{:28} {:16} {:18} {:>10} {:>10} {:>10} {:>6} {:>9} {:>9} {:>12}\n", "layer", "kind",
                                 "output", "forward ms", "backward", "update", "share", "GFLOP", "MB", "of roofline");
  for (const LayerTimes& layer : layers) {
    const double flop = layer.forward.work.flop + layer.backward.work.flop + layer.update.work.flop,
                 bytes = layer.forward.work.bytes + layer.backward.work.bytes + layer.update.work.bytes;
    text += fmt::format("{:28} {:16} {:18} {:>10} {:>10} {:>10} {:>6} {:9.3f} {:9.2f} {:>12}\n", layer.name, layer.kind,
                        to_string(layer.out), ms_text(layer.forward.ms), ms_text(layer.backward.ms),
                        ms_text(layer.update.ms), percent_text(layer.ms() / total), flop / 1e9, megabytes(bytes),
                        percent_text(layer.roofline(rates)));
  }
  return text;
}

std::string profile_text(const Profile& profile) {
  double forward = 0, backward = 0, update = 0;
  for (const LayerTimes& layer : profile.layers)
    forward += layer.forward.ms, backward += layer.backward.ms, update += layer.update.ms;
  const auto mebibytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return fmt::format(
             "{}\nmeasured: {:.2f} TFLOP/s of a large matrix product, {:.1f} GB/s of a copy\n"
             "a step of {} samples: {:.3f} ms, {:.0f} images/s, {:.0f} % of the time waiting for data (mean of {} "
             "steps)\n"
             "memory: parameters {:.1f} MiB, optimizer {:.1f} MiB, values of a step {:.1f} MiB\n\n"
             "layers, each by itself: forward {:.3f}, backward {:.3f}, update {:.3f} ms; a step runs several as one "
             "kernel, so it need not take their sum\n{}\n",
             profile.machine, profile.rates.flop_per_second / 1e12, profile.rates.bytes_per_second / 1e9, profile.batch,
             profile.step_ms, 1e3 * static_cast<double>(profile.batch) / profile.step_ms, 100 * profile.data_wait,
             profile.steps, mebibytes(profile.parameter_bytes), mebibytes(profile.optimizer_bytes),
             mebibytes(profile.arena_bytes), forward, backward, update,
             layer_times_text(profile.layers, profile.rates)) +
         kernel_table(profile);
}

void write_trace(const Profile& profile, const std::filesystem::path& file) {
  nlohmann::json events = {name_of_row(kKernels, "kernels of a step"), name_of_row(kForward, "layers alone: forward"),
                           name_of_row(kBackward, "layers alone: backward"),
                           name_of_row(kUpdate, "layers alone: update")};
  double now = 0;
  for (const PlanRecord& plan : profile.kernels)
    for (const GroupRecord& group : plan) {
      const double ms = group.ms.back();  // all of one step, so that they are in the order in which they ran
      nlohmann::json kernel =
          event(group.piece.name, kKernels, now, ms, work_of_group(group.piece.plan), profile.rates);
      if (!group.algorithm.empty()) kernel["args"]["algorithm"] = group.algorithm;
      events.push_back(std::move(kernel));
      now += ms;
    }
  now = 0;
  const auto add = [&](const LayerTimes& layer, const TimedWork& timed, Row row) {
    if (timed.ms == 0) return;
    events.push_back(event(layer.name + " (" + layer.kind + ")", row, now, timed.ms, timed.work, profile.rates));
    now += timed.ms;
  };
  for (const LayerTimes& layer : profile.layers) add(layer, layer.forward, kForward);
  for (auto layer = profile.layers.rbegin(); layer != profile.layers.rend(); ++layer)
    add(*layer, layer->backward, kBackward);
  for (const LayerTimes& layer : profile.layers) add(layer, layer.update, kUpdate);
  write_text(file, nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump(1) + "\n");
}

}  // namespace nixie
