// trainer summary and --dry-run: the layers, parameters and memory of a configuration, before training.
#pragma once

#include "nixie/configs/parse/config.h"

namespace nixie {

/// Prints the layers as a table, the parameters, the memory of a training step, and warnings about likely mistakes.
void run_summary(const TrainConfig& config);

/// Prints the summary, then trains one step and evaluates one batch; nothing is written.
void run_dry(const TrainConfig& config);

}  // namespace nixie
