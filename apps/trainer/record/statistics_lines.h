// The forms in which a run's statistics are written: JSON lines, TensorBoard's scalars and histograms, a line of text.
#pragma once

#include "nixie/apps/trainer/record/event_file.h"
#include "nixie/models/statistics.h"

namespace nixie {

inline constexpr const char* kStatisticsFile = "statistics.jsonl";

/// A JSON object in a line for each row: `{"step": 50, "layer": "features.0", "role": "weights", "elements": ...}`;
/// what is no number is null. `shadow`: the names of the formats.
std::string statistics_lines(std::int64_t step, const std::vector<TensorStatistics>& rows,
                             const std::vector<std::string>& shadow);
/// The whole lines of the file whose step is at most this; "" where there is no file. Throws Fault::storage.
std::string statistics_up_to(const FilePlace& place, std::int64_t step);

/// `largest/features.0.weights` and so on; of counts the shares, of magnitudes the powers of two.
std::vector<Scalar> statistics_scalars(const std::vector<TensorStatistics>& rows,
                                       const std::vector<std::string>& shadow);
std::vector<Buckets> exponent_histograms(const std::vector<TensorStatistics>& rows);

/// `the first infinity or NaN that statistics saw is in the ROLE of LAYER at step N`; "" where there was none.
std::string overflow_text(const std::vector<TensorStatistics>& rows);

}  // namespace nixie
