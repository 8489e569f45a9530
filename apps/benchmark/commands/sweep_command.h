// `benchmark sweep`: random convolution layers, each checked in double, beside cuDNN.
#pragma once

#include <filesystem>

#include "nixie/apps/benchmark/subjects/contraction_peer.h"

namespace nixie::benchmark {

struct SweepCommand {
  int count = 0;  ///< 0: 300 on a GPU, 40 on a CPU
  std::uint64_t seed = 1;
  std::vector<std::string> kinds = {};       ///< only these kinds of the drawn layers (SweepLayer::kind); empty: all
  std::vector<std::string> precisions = {};  ///< empty: fp16 on a GPU, fp32 on a CPU
  std::string backend = "auto";
  int threads = 0;  ///< of the CPU, 0 = all
  int runs = 7;
  PeerOptions peer = {.seconds = 900};
  std::filesystem::path json = {}, csv = {}, plot = {};  ///< empty: not written
};

/// Prints the rows and their summary, and writes the files. Throws Error: that of the first layer that is
/// wrong, after all others.
void run_sweep(const SweepCommand& command);

}  // namespace nixie::benchmark
