// The tables as charts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nixie::benchmark {

/// fprop, bprop and training step of every net and precision.
std::string nets_chart(const nlohmann::json& report);
/// fprop + bprop of every net and precision, here and at each of its peers.
std::string compare_chart(const nlohmann::json& report);
/// Bandwidth of the in-place workloads over the size of the array.
std::string arrays_chart(const nlohmann::json& report);
/// Time of fprop + bprop as batch, depth and image side grow.
std::string scaling_chart(const nlohmann::json& report);
/// Speed of the products over their size, a line per precision.
std::string gemm_chart(const nlohmann::json& report);
/// Every layer and role under the roofline: speed over FLOP per byte.
std::string layers_chart(const nlohmann::json& report);

}  // namespace nixie::benchmark
