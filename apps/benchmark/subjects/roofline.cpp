// The figures that are relative to others of the row.
#include "nixie/apps/benchmark/subjects/roofline.h"

#include <algorithm>

#include "nixie/apps/trainer/profile/ceiling.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie::benchmark {

double begin_rooflines(Report& report, Backend& backend, const ContractionPeer& peer) {
  const double copy_rate = measure_copy_rate(backend);
  report.set("copy_gigabytes_per_second", copy_rate);
  report.set("peer", peer.program());
  tell("copy {:.1f} GB/s\npeer: {}\n", copy_rate, peer.program());
  return copy_rate;
}

void set_roofline(nlohmann::json& row, double bytes, double ceiling_tflops, double copy_rate) {
  const double ms = row["ms"]["median"],
               roofline_ms = std::max(row["tflops"].get<double>() * ms / ceiling_tflops, bytes / copy_rate / 1e6);
  row["roofline_ms"] = roofline_ms;
  row["percent_of_roofline"] = 100 * roofline_ms / ms;
}

void set_peer(nlohmann::json& row, const nlohmann::json& peer) {
  row["peer"] = peer;
  if (peer.contains("ms")) row["ratio"] = peer["ms"]["median"].get<double>() / row["ms"]["median"].get<double>();
}

Columns with_peer(Columns columns) {
  columns.insert(columns.end(), {{"peer us", 9, "peer.ms", "{:.2f}", 1e3},
                                 {"ratio", 6, "ratio", "{:.2f}x"},
                                 {"its error", 9, "peer.error", "{:.1e}"}});
  return columns;
}

}  // namespace nixie::benchmark
