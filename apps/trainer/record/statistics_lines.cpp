// A line is written by hand, so that its keys keep their order, and read by a JSON parser.
#include "nixie/apps/trainer/record/statistics_lines.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "nixie/core/files/open_to_read.h"

namespace nixie {
namespace {

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string line_of(std::int64_t step, const TensorStatistics& row, const std::vector<std::string>& shadow) {
  std::string line = fmt::format(
      "{{\"step\": {}, \"layer\": {}, \"role\": \"{}\", \"elements\": {}, \"zeros\": {}, \"saturated\": {}, "
      "\"infinite\": {}, \"nan\": {}, \"largest\": {}, \"mean\": {}",
      step, nlohmann::json(row.layer).dump(), row.role, row.elements, row.zeros, row.saturated, row.infinite, row.nan,
      number(row.largest), number(row.mean));
  if (row.first_overflow > 0) line += fmt::format(", \"first_overflow\": {}", row.first_overflow);
  for (std::size_t i = 0; i < row.formats.size(); ++i)
    line += fmt::format(", \"{}\": {{\"error\": {}, \"saturated\": {}, \"lost\": {}}}", shadow[i],
                        number(row.formats[i].error), number(row.formats[i].saturated), number(row.formats[i].lost));
  if (row.exponents.empty()) return line + "}\n";
  std::string counts;
  for (std::size_t i = 0; i < row.exponents.size(); ++i)
    if (row.exponents[i] > 0)
      counts += fmt::format("{}\"{}\": {}", counts.empty() ? "" : ", ",
                            TensorStatistics::kLowestExponent + static_cast<int>(i), row.exponents[i]);
  return line + ", \"exponents\": {" + counts + "}}\n";
}

/// `features.0.weights`
std::string place_of(const TensorStatistics& row) { return row.layer + "." + row.role; }

}  // namespace

std::string statistics_lines(std::int64_t step, const std::vector<TensorStatistics>& rows,
                             const std::vector<std::string>& shadow) {
  std::string text;
  for (const TensorStatistics& row : rows) text += line_of(step, row, shadow);
  return text;
}

std::string statistics_up_to(const FilePlace& place, std::int64_t step) {
  if (!std::filesystem::exists(place.status())) return {};
  std::istringstream file(read_text(place, Fault::storage, "move it away, or begin another run"));
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("step") && row["step"].is_number() && row["step"] <= step) kept += line + "\n";
  }
  return kept;
}

std::vector<Scalar> statistics_scalars(const std::vector<TensorStatistics>& rows,
                                       const std::vector<std::string>& shadow) {
  std::vector<Scalar> scalars;
  for (const TensorStatistics& row : rows) {
    const std::string place = place_of(row);
    const auto share = [&](std::int64_t count) {
      return static_cast<double>(count) / static_cast<double>(row.elements);
    };
    scalars.push_back({"largest/" + place, row.largest});
    scalars.push_back({"mean/" + place, row.mean});
    scalars.push_back({"zeros/" + place, share(row.zeros)});
    scalars.push_back({"saturated/" + place, share(row.saturated)});
    scalars.push_back({"not_finite/" + place, share(row.infinite + row.nan)});
    for (std::size_t i = 0; i < row.formats.size(); ++i)
      scalars.push_back({fmt::format("error_{}/{}", shadow[i], place), row.formats[i].error});
  }
  return scalars;
}

std::vector<Buckets> exponent_histograms(const std::vector<TensorStatistics>& rows) {
  std::vector<Buckets> all;
  for (const TensorStatistics& row : rows) {
    if (row.exponents.empty()) continue;
    Buckets& buckets = all.emplace_back(Buckets{"exponents/" + place_of(row)});
    for (std::size_t i = 0; i < row.exponents.size(); ++i) {
      buckets.limits.push_back(TensorStatistics::kLowestExponent + static_cast<double>(i) + 1);
      buckets.counts.push_back(static_cast<double>(row.exponents[i]));
    }
  }
  return all;
}

std::string overflow_text(const std::vector<TensorStatistics>& rows) {
  const TensorStatistics* first = first_overflow(rows);
  if (!first) return {};
  return fmt::format("the first infinity or NaN that statistics saw is in the {} of {} at step {}", first->role,
                     first->layer, first->first_overflow);
}

}  // namespace nixie
