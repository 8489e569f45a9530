// trainer summary and --dry-run: what a configuration describes, before any time is spent on it.
#pragma once

#include "nixie/configs/parse/config.h"

namespace nixie {

/// The layers as a table, the parameters, the memory of a training step, and warnings about what is probably not meant.
std::string summary_text(const TrainConfig& config);

/// Prints the summary, then trains one step and evaluates one batch; nothing is written.
void run_dry(const TrainConfig& config);

}  // namespace nixie
