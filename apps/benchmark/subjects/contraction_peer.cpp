// Operands go by files, so that both sides multiply the same numbers.
#include "nixie/apps/benchmark/subjects/contraction_peer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie::benchmark {
namespace {

/// A file of the temporary folder that goes with its owner.
class TemporaryFile {
 public:
  explicit TemporaryFile(const char* name)
      : path_(std::filesystem::temp_directory_path() / fmt::format("nixie-{}-{}", ::getpid(), name)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const Array& values) const {
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(values.bytes()), values.size_bytes());
    if (!out.flush()) fail(Fault::storage, path_.string(), ": writing failed; free space or set TMPDIR");
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

ContractionPeer::ContractionPeer(const ContractionPeerOptions& options, bool on_cpu) : reason_("not asked for") {
  if (!options.wanted.value_or(!on_cpu)) return;
  try {
    process_ = PeerProcess::start(options, "torch_contractions.py", on_cpu);
    process_->wait_until_ready();
  } catch (const Error& error) {
    if (error.fault() != Fault::usage) throw;
    reason_ = error.what();
  }
}

nlohmann::json ContractionPeer::time(nlohmann::json request, const PrecisionTraits& precision,
                                     const std::vector<Operand>& operands, const std::vector<std::int64_t>& positions,
                                     const std::vector<ExactSum>& expected, int runs) {
  if (!works()) return {{"left_out", program()}};
  request.update({{"precision", precision.name}, {"positions", positions}, {"runs", runs}});
  static constexpr const char* kNames[] = {"a", "b", "c"};
  const TemporaryFile files[] = {TemporaryFile("a"), TemporaryFile("b"), TemporaryFile("c")};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    files[i].write(operands[i].values);
    request[kNames[i]] = {{"file", files[i].path().string()},
                          {"dtype", to_string(operands[i].values.dtype())},
                          {"shape", operands[i].values.shape().sizes()},
                          {"transposed", operands[i].transposed}};
  }
  const nlohmann::json answer = process_->ask(request);
  if (answer.contains("error")) return {{"left_out", answer["error"]}};
  Deviation deviation;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& value = answer.at("values").at(i);
    const double found = value.is_number() ? value.get<double>() : NAN;
    deviation.is_finite = deviation.is_finite && std::isfinite(found);
    deviation.add(found, expected[i], precision.rounding);
  }
  return {{"ms", answer.at("ms")}, {"error", deviation.error()}};
}

nlohmann::json ContractionPeer::time_random(nlohmann::json request, const PrecisionTraits& precision,
                                            const Tensor& node, int runs) {
  if (!works()) return {{"left_out", program()}};
  request.update({{"precision", precision.name}, {"positions", nlohmann::json::array()}, {"runs", runs}});
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor& x = node.inputs()[i];
    const bool transposed = std::holds_alternative<Permute>(x.node().op);
    request[i == 0 ? "a" : "b"] = {{"shape", (transposed ? x.inputs()[0] : x).shape().sizes()},
                                   {"transposed", transposed}};
  }
  const nlohmann::json answer = process_->ask(request);
  if (answer.contains("error")) return {{"left_out", answer["error"]}};
  return {{"ms", answer.at("ms")}};
}

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
