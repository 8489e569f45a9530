// Profile: where the time of a training step goes, layer by layer and kernel by kernel, as text and as a trace.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nixie/apps/trainer/profile/work_of.h"
#include "nixie/backends/recording.h"
#include "nixie/configs/parse/config.h"
#include "nixie/core/graph/backend.h"

namespace nixie {

/// The measured rates of a backend.
struct MachineRates {
  double flop_per_second = 0, bytes_per_second = 0;

  /// The least time of some work, in milliseconds: of its products or of its bytes, whichever takes longer.
  double least_ms(const Work& work) const;
};
MachineRates measure_rates(Backend& backend, PrecisionPolicy precision);

struct TimedWork {
  double ms = 0;
  Work work = {};
};
struct LayerTimes {
  std::string name = {}, kind = {};
  Shape out = {};  ///< the batch included
  std::int64_t parameters = 0;
  TimedWork forward = {}, backward = {}, update = {};

  double ms() const { return forward.ms + backward.ms + update.ms; }
  /// The share of its time that the machine would need.
  double roofline(const MachineRates& rates) const;
};

/// The layers of the net and its loss on random inputs [N, ...]; values between layers are stored as the precision
/// stores them. A layer that only reads another's values in another order takes no time, nor does one that joins
/// branches: a step does both on the way. Equal layers are measured once.
std::vector<LayerTimes> time_layers(Backend& backend, const TrainConfig& config, const Shape& input,
                                    const std::function<void(const std::string&)>& tell = {});

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

/// The configuration as a run that only its steps end, without anything between them but the callbacks.
TrainConfig bare_run(TrainConfig config, std::int64_t steps);

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
