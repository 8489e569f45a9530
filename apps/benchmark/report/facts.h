// The conditions of a measurement: machine, device, driver, clocks, program and date.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "nixie/core/graph/backend.h"

namespace nixie::benchmark {

/// `Intel(R) Xeon(R) Processor, 2 cores`
std::string processor_text();

/// Processor, compiler, commit and date (UTC).
nlohmann::json program_facts();

/// Backend, and for a GPU its name, driver, clocks, power and temperature by nvidia-smi now, or "unknown".
/// `machine` is machine_text's line.
nlohmann::json device_facts(const Backend& backend, const std::string& machine);

/// Both in two lines.
std::string facts_text(const nlohmann::json& facts);

}  // namespace nixie::benchmark
