// One function per table.
#include "nixie/apps/benchmark/report/markdown.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/report/sweep_summary.h"
#include "nixie/core/base/error.h"
#include "nixie/core/files/open_to_read.h"

namespace nixie::benchmark {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& row, const char* key) { return row.value(key, std::string()); }

/// A row of a table; `cells` are the cells' texts.
std::string line(const std::vector<std::string>& cells) { return fmt::format("| {} |\n", fmt::join(cells, " | ")); }

std::string header(const std::vector<std::string>& cells) {
  return line(cells) + line(std::vector<std::string>(cells.size(), "---"));
}

/// Four significant digits, and all of those before the point.
std::string digits(double value) {
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string median(const Json& timing) { return digits(timing["median"]); }

std::string spread(const Json& timing, double unit = 1) {
  const auto of = [&](const char* key) { return digits(unit * timing[key].get<double>()); };
  return fmt::format("{} ({} - {})", of("median"), of("min"), of("max"));
}

std::string error_text(const Json& error) { return fmt::format("{:.1e}", error.get<double>()); }

std::string facts(const Json& report) {
  std::string date = text_of(report, "date");
  if (date.size() >= 16) date = date.substr(0, 10) + ", " + date.substr(11, 5) + " UTC";
  std::string text = fmt::format("{}; commit {}; ", date, text_of(report, "commit"));
  if (report.contains("device")) {
    text += fmt::format("one {}, driver {}, SM clock {}", text_of(report, "device"), text_of(report, "driver"),
                        text_of(report, "sm_clock"));
    if (report.contains("clocks_after"))
      text += fmt::format(" ({} after)", text_of(report["clocks_after"], "sm_clock"));
    text += "; ";
  }
  text += fmt::format("{}, {}", text_of(report, "processor"), text_of(report, "program"));
  for (const char* key : {"program_torch", "program_jax", "peer"})
    if (report.contains(key)) text += "; " + text_of(report, key);
  return text + ".\n\n";
}

std::string net_cells(const Json& row) { return fmt::format("{} {}", text_of(row, "net"), row["batch"].get<int>()); }

std::string nets_table(const Json& rows) {
  std::string text = header({"net, batch", "precision", "fprop ms (min - max)", "bprop ms", "total ms",
                             "TFLOP/s counted, executed", "% of ceiling", "training step ms", "with dynamic scale",
                             "its MB", "errors: fprop, bprop, update; whole"});
  for (const Json& row : rows)
    text += line({net_cells(row), text_of(row, "precision"), spread(row["fprop_ms"]), spread(row["bprop_ms"]),
                  spread(row["total_ms"]), digits(row["counted_tflops"]) + ", " + digits(row["executed_tflops"]),
                  fmt::format("{:.0f}", row["percent_of_ceiling"].get<double>()), spread(row["train_ms"]),
                  row.contains("train_dynamic_ms") ? median(row["train_dynamic_ms"]) : "",
                  row.contains("train_mb") ? digits(row["train_mb"]) : "",
                  fmt::format("{}, {}, {}; {}", error_text(row["check"]["fprop"]["error"]),
                              error_text(row["check"]["bprop"]["error"]), error_text(row["check"]["update"]["error"]),
                              error_text(row["check"]["distance"]))});
  return text;
}

/// Each metric of each net: nixie's time, the best peer's, and the ratio.
std::string ratio_table(const Json& rows) {
  std::string text = header({"net, batch", "precision", "fprop ms: nixie, best peer", "ratio", "fprop + bprop ms",
                             "ratio", "training step ms", "ratio"});
  for (const Json& row : rows) {
    std::vector<std::string> cells{net_cells(row), text_of(row, "precision")};
    for (const char* metric : {"fprop_ms", "total_ms", "train_ms"}) {
      const bool has_peer = row["best_peer"].contains(metric);
      const Json best = has_peer ? row["best_peer"][metric] : Json::object();
      cells.push_back(has_peer ? fmt::format("{}, {} {}", median(row[metric]), median(best), text_of(best, "peer"))
                               : median(row[metric]));
      cells.push_back(has_peer ? fmt::format("**{:.2f}**", best["ratio"].get<double>()) : "no peer");
    }
    text += line(cells);
  }
  return text + "\nratio: the best peer's time over nixie's; above 1 nixie is faster.\n\n";
}

std::string peers_table(const Json& rows) {
  std::string text =
      header({"net, batch", "precision", "peer", "fprop ms", "fprop + bprop ms", "training step ms", "its MB"});
  for (const Json& row : rows)
    for (const Json& peer : row["peers"])
      text += line({net_cells(row), text_of(row, "precision"), text_of(peer, "peer"), spread(peer["fprop_ms"]),
                    spread(peer["total_ms"]), spread(peer["train_ms"]),
                    peer.contains("peak_mb") && !peer["peak_mb"].is_null() ? digits(peer["peak_mb"]) : ""});
  for (const Json& row : rows)
    for (const Json& each : row["left_out"])
      text += fmt::format("\nLeft out: {} {}: {}: {}.", text_of(row, "net"), text_of(row, "precision"),
                          text_of(each, "peer"), text_of(each, "why"));
  return text + "\n";
}

std::string compare_tables(const Json& report, bool is_brief) {
  const Json& rows = report["rows"];
  if (is_brief) return ratio_table(rows);
  return ratio_table(rows) + "nixie:\n\n" + nets_table(rows) + "\nThe peers:\n\n" + peers_table(rows);
}

/// The peer's median in microseconds and its time over the own one.
std::string peer_cell(const Json& row) {
  if (!row["peer"].contains("ms")) return "";
  const double peer = row["peer"]["ms"]["median"];
  return fmt::format("{} ({:.2f})", digits(1e3 * peer), peer / row["ms"]["median"].get<double>());
}

std::string roofline_cell(const Json& row) {
  return fmt::format("{:.0f}", 100 * row["roofline_ms"].get<double>() / row["ms"]["median"].get<double>());
}

std::string ceilings(const Json& report) {
  std::string text = fmt::format("Copy {} GB/s", digits(report["copy_gigabytes_per_second"]));
  for (const auto& [key, value] : report.items())
    if (key.rfind("ceiling_tflops_", 0) == 0) text += fmt::format("; {} {} TFLOP/s", key.substr(15), digits(value));
  return text + ".\n\n";
}

std::string layers_table(const Json& report) {
  std::string text = ceilings(report) + header({"net", "layer", "role", "precision", "us (min - max)", "TFLOP/s",
                                                "GB/s", "% of roofline", "cuBLAS, cuDNN us (ratio)", "error"});
  for (const Json& row : report["rows"])
    text += line({text_of(row, "net"), text_of(row, "layer"), text_of(row, "role"), text_of(row, "precision"),
                  spread(row["ms"], 1e3), digits(row["tflops"]), digits(row["gigabytes_per_second"]),
                  roofline_cell(row), peer_cell(row), error_text(row["error"])});
  return text;
}

std::string gemm_table(const Json& report) {
  std::string text = ceilings(report) + header({"m x n x k", "layout", "alpha, beta", "precision", "us (min - max)",
                                                "TFLOP/s", "% of roofline", "cuBLAS us (ratio)", "error"});
  for (const Json& row : report["rows"])
    text += line({fmt::format("{} x {} x {}", row["m"].get<int>(), row["n"].get<int>(), row["k"].get<int>()),
                  text_of(row, "layout"), fmt::format("{}, {}", row["alpha"].get<double>(), row["beta"].get<double>()),
                  text_of(row, "precision"), spread(row["ms"], 1e3), digits(row["tflops"]), roofline_cell(row),
                  peer_cell(row), error_text(row["error"])});
  return text;
}

std::string arrays_table(const Json& report) {
  std::string text =
      header({"workload", "elements", "ms (min - max)", "GB/s", "TFLOP/s", "error", "CPU ms", "CPU ms / ms"});
  for (const Json& row : report["rows"]) {
    const double cpu = row["cpu_ms"];
    text += line({text_of(row, "workload"), fmt::format("{}", row["elements"].get<std::int64_t>()), spread(row["ms"]),
                  digits(row["gigabytes_per_second"]), row["tflops"].get<double>() > 0 ? digits(row["tflops"]) : "",
                  error_text(row["error"]), cpu > 0 ? digits(cpu) : "",
                  cpu > 0 ? fmt::format("{:.2f}", cpu / row["ms"]["median"].get<double>()) : ""});
  }
  return text;
}

std::string scaling_table(const Json& report) {
  std::string text =
      header({"what grows", "batch", "depth", "side", "fprop ms", "fprop + bprop ms", "training step ms", "TFLOP/s"});
  for (const Json& row : report["rows"])
    text += line({text_of(row, "grows"), fmt::format("{}", row["batch"].get<int>()),
                  fmt::format("{}", row["depth"].get<int>()), fmt::format("{}", row["side"].get<int>()),
                  median(row["fprop_ms"]), median(row["total_ms"]), median(row["train_ms"]),
                  digits(row["counted_tflops"])});
  return text;
}

std::string data_table(const Json& report) {
  std::string text = header({"data", "sample", "threads", "batch", "images/s"});
  for (const Json& row : report["rows"])
    text += line({text_of(row, "data"), text_of(row, "sample"), fmt::format("{}", row["threads"].get<int>()),
                  fmt::format("{}", row["batch"].get<int>()),
                  fmt::format("{:.0f}", row["images_per_second"].get<double>())});
  return text;
}

}  // namespace

std::string markdown_text(const Json& report, bool is_brief) {
  const std::string command = text_of(report, "command");
  const std::string table = command == "compare"   ? compare_tables(report, is_brief)
                            : command == "layers"  ? layers_table(report)
                            : command == "gemm"    ? gemm_table(report)
                            : command == "arrays"  ? arrays_table(report)
                            : command == "sweep"   ? sweep_text(report["rows"])
                            : command == "scaling" ? scaling_table(report)
                            : command == "data"    ? data_table(report)
                                                   : nets_table(report["rows"]);
  return facts(report) + table;
}

void put_into_page(const std::filesystem::path& page, const std::string& name, const std::string& text) {
  std::ifstream file = open_to_read(page, Fault::usage, "name a page that has the lines for the table");
  std::ostringstream whole;
  whole << file.rdbuf();
  std::string content = whole.str();
  const std::string first = fmt::format("<!-- benchmark {} -->\n", name), last = "<!-- end -->";
  const std::size_t begin = content.find(first), end = content.find(last, begin);
  if (begin == std::string::npos || end == std::string::npos)
    fail(Fault::usage, page.string(), ": there is no ", first.substr(0, first.size() - 1), " with ", last,
         " after it; put both where the table shall stand");
  content.replace(begin + first.size(), end - begin - first.size(), text);
  write_file(page, content);
}

}  // namespace nixie::benchmark
