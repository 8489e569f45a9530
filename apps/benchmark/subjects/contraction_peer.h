// ContractionPeer: times cuBLAS and cuDNN on single products and convolutions, through PyTorch if it is installed.
#pragma once

#include "nixie/apps/benchmark/checks/precision.h"
#include "nixie/apps/benchmark/measure/peer_process.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/core/graph/tensor.h"

namespace nixie::benchmark {

struct ContractionPeerOptions : PeerOptions {
  std::optional<bool> wanted = {};  ///< empty: on a GPU only
};

class ContractionPeer {
 public:
  struct Operand {
    Array values = {};        ///< as stored
    bool transposed = false;  ///< read transposed
  };

  /// Starts it if wanted. If it is missing, `program` says so, and no row has a peer.
  ContractionPeer(const ContractionPeerOptions& options, bool on_cpu);

  bool works() const { return process_ && process_->works(); }
  /// The peer's name and version, or why there is none.
  std::string program() const { return process_ ? process_->program() : reason_; }
  /// Times the product or convolution of `request` (apps/peers/torch_contractions.py); `expected` are the
  /// result's elements at `positions` in double. Gives {"ms": Timing, "error": max|diff| / mean|ref| of its own
  /// result}, or {"left_out": why}.
  nlohmann::json time(nlohmann::json request, const PrecisionTraits& precision, const std::vector<Operand>& operands,
                      const std::vector<std::int64_t>& positions, const std::vector<ExactSum>& expected, int runs);
  /// The same on the peer's own random operands, unchecked: no operands are written to files.
  nlohmann::json time_random(nlohmann::json request, const PrecisionTraits& precision, const Tensor& node, int runs);

 private:
  std::unique_ptr<PeerProcess> process_;
  std::string reason_;
};

/// Measures the copy rate in GB/s, and notes and prints it and the peer.
double begin_rooflines(Report& report, Backend& backend, const ContractionPeer& peer);
/// Adds the time at the roofline, the larger of FLOP / `ceiling_tflops` and bytes / `copy_rate`, and the percentage of
/// it that a row with `tflops` and `ms` reaches.
void set_roofline(nlohmann::json& row, double bytes, double ceiling_tflops, double copy_rate);
/// Adds the peer's answer, and its time over the row's.
void set_peer(nlohmann::json& row, const nlohmann::json& peer);
/// These columns, and the peer's.
Columns with_peer(Columns columns);

}  // namespace nixie::benchmark
