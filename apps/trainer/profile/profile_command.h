// trainer profile: where the time of a configuration's training goes.
#pragma once

#include "nixie/apps/trainer/profile/profile.h"

namespace nixie {

struct ProfileCommand {
  int steps = 20;
  std::filesystem::path trace = {};  ///< file for Chrome's trace; empty: none
};

/// Measures and prints. Throws Error.
void run_profile(const TrainConfig& config, const ProfileCommand& command);

}  // namespace nixie
