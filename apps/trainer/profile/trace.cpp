// Chrome's trace: complete events ("X") in microseconds; a thread of the viewer for each kind of row.
#include <nlohmann/json.hpp>

#include "nixie/apps/trainer/profile/profile.h"
#include "nixie/apps/trainer/record/run_folder.h"

namespace nixie {
namespace {

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
