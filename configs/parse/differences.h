// The differences between two configurations.
#pragma once

#include <string>
#include <vector>

#include "nixie/configs/parse/yaml.h"

namespace nixie {

/// One line for each value that differs, by its path: `schedule.step.rate: 0.1 -> 0.01`; a missing value is
/// `nothing`. Texts are YAML, as `config_text` prints them.
std::vector<std::string> config_differences(const Tree& before, const Tree& after);
std::vector<std::string> config_differences(const std::string& before, const std::string& after);

}  // namespace nixie
