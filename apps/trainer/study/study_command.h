// trainer study formats: which number formats a net's products would bear, measured in one run.
#pragma once

#include <filesystem>

#include "nixie/configs/parse/config.h"

namespace nixie {

struct StudyCommand {
  std::string subject = "formats";
  StatisticsOptions statistics = {.every = 1,
                                  .shadow = {"bf16", "f16", "e4m3", "e5m2", "int8", "e3m2", "e2m3", "e2m1"}};
  std::int64_t steps = 50;
  double threshold = 1e-3;
  std::filesystem::path out = {};   ///< the configuration with the formats that were chosen; empty: not written
  std::filesystem::path html = {};  ///< the errors as a heat map; empty: not written
};

/// Trains the configuration from its initial weights, prints the errors of each layer's operands and the formats that
/// it chooses. Nothing but the files of the command is written. Throws as a run does.
void run_study(const TrainConfig& config, const StudyCommand& command);

}  // namespace nixie
