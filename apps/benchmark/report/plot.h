// The tables as charts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nixie::benchmark {

/// fprop, bprop and training step of every net and precision.
std::string nets_chart(const nlohmann::json& report);
/// The chart of a report of any command. Throws a usage Error for a command without a chart.
std::string chart_of(const nlohmann::json& report);

/// Speed of fprop + bprop of every net and precision, for nixie and the best engine of each peer.
std::string compare_chart(const nlohmann::json& report);
/// Bandwidth of the in-place workloads over the size of the array.
std::string arrays_chart(const nlohmann::json& report);
/// Time of fprop + bprop as batch, depth and image side grow.
std::string scaling_chart(const nlohmann::json& report);
/// Speed of the products over their size, a line per precision.
std::string gemm_chart(const nlohmann::json& report);
/// The peer's time over nixie's for every layer of a sweep, against its FLOP; without a peer its speed.
std::string sweep_chart(const nlohmann::json& report);
/// Every layer and role under the roofline: speed over FLOP per byte.
std::string layers_chart(const nlohmann::json& report);

}  // namespace nixie::benchmark
