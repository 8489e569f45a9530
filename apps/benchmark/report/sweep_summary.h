// Statistics over the rows of a sweep.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nixie::benchmark {

/// For rows with a peer, ratios of the peer's time to nixie's: `rows`, `geometric_mean`, `quantiles` (by
/// name, 5% to 95% with the extremes), `share_above_0.9`, `least`, `groups` (rows and geometric_mean of each role and
/// kind) and `worst` (positions of the ten smallest, ascending). `left_out` counts the rows without a peer.
nlohmann::json sweep_summary(const nlohmann::json& rows);

/// The summary and the ten worst rows as text.
std::string sweep_text(const nlohmann::json& rows);

}  // namespace nixie::benchmark
