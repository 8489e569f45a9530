// The tables as charts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nixie::benchmark {

/// fprop, bprop and training step of every net and precision.
std::string nets_chart(const nlohmann::json& report);
/// fprop + bprop of every net and precision, here and at each of its peers.
std::string compare_chart(const nlohmann::json& report);

}  // namespace nixie::benchmark
