// `benchmark gemm`: matrix products of many shapes and layouts, each checked, beside cuBLAS.
#pragma once

#include <filesystem>

#include "nixie/apps/benchmark/subjects/contraction_peer.h"

namespace nixie::benchmark {

struct GemmCommand {
  std::string backend = "auto";
  int threads = 0;  ///< of the CPU, 0 = all
  int runs = 10;
  std::vector<std::string> precisions = {};              ///< empty: fp16 and fp32 on a GPU, fp32 on a CPU
  std::vector<std::int64_t> size = {};                   ///< m, n, k; empty: the grid
  PeerOptions peer = {};                                 ///< the peer that is timed as well
  std::filesystem::path json = {}, csv = {}, plot = {};  ///< empty: not written
};

/// C [m, n] = alpha op(A) op(B) + beta C.
struct GemmRow {
  std::string precision = {}, layout = {};  ///< nn, tn (A is stored transposed) or nt (B is)
  std::int64_t m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  Timing time = {};
  double error = 0, share = 0;  ///< max|diff| / mean|ref|, and the share of the error bound
  double roofline_ms = 0;       ///< max(FLOP / matmul ceiling, bytes / copy rate)
  PeerTiming peer = {};
  double tflops() const {
    return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / time.median / 1e9;
  }
};

/// Times and checks one product, in nixie and the peer. Throws Fault::non_finite if it is wrong.
GemmRow time_gemm(Backend& backend, const PrecisionTraits& precision, GemmRow row, int runs, ContractionPeer& peer);

/// Prints the table and writes the files. Throws Error.
std::vector<GemmRow> run_gemm(const GemmCommand& command);

}  // namespace nixie::benchmark
