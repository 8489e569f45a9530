// Profile: where the time of a training step goes, layer by layer and kernel by kernel, as text and as a trace.
#pragma once

#include <filesystem>

#include "nixie/apps/trainer/profile/layer_times.h"
#include "nixie/backends/recording.h"

namespace nixie {

/// What `trainer profile` has measured.
struct Profile {
  std::string machine = {};  ///< a line about it
  MachineRates rates = {};
  std::vector<LayerTimes> layers = {};  ///< each by itself
  std::int64_t batch = 0;               ///< samples of a step
  int steps = 0;                        ///< that were timed
  double step_ms = 0;                   ///< of a whole step, the wait for its batch included
  double data_wait = 0;                 ///< share of that time
  std::int64_t parameter_bytes = 0, optimizer_bytes = 0, arena_bytes = 0;
  std::list<PlanRecord> kernels = {};  ///< of the steps that ran group by group
};

/// Trains `steps` steps of the configuration without a run folder, then a few under the clock, then times its layers.
/// `tell` gets a line about each stage.
Profile take_profile(const TrainConfig& config, int steps, const std::function<void(const std::string&)>& tell = {});

/// The tables, in plain text.
std::string profile_text(const Profile& profile);
/// The layers alone, the widths of a terminal; also for reports.
std::string layer_times_text(const std::vector<LayerTimes>& layers, const MachineRates& rates);

/// The kernels of one step and the layers by themselves in Chrome's trace format, which chrome://tracing and
/// ui.perfetto.dev show. Throws Fault::storage.
void write_trace(const Profile& profile, const std::filesystem::path& file);

}  // namespace nixie
