// LayerTimes: the time of each layer by itself, forward, backward and update, with its roofline.
#pragma once

#include <string>
#include <vector>

#include "nixie/apps/trainer/profile/work_of.h"
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

}  // namespace nixie
