// trainer find-rate: a learning rate for a configuration, from a short sweep over rates.
#pragma once

#include <filesystem>

#include "nixie/apps/trainer/rates/rate_sweep.h"

namespace nixie {

struct FindRateCommand {
  RateRange range = {};
  std::filesystem::path html = {};  ///< where the chart is written; empty: nowhere
};

/// Prints to stdout. Nothing but the chart is written.
void run_find_rate(const TrainConfig& config, const FindRateCommand& command);

}  // namespace nixie
