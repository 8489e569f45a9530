// `benchmark layers`: every product and convolution of a net alone, in each role, against the device's roofline and
// cuBLAS and cuDNN.
#pragma once

#include <filesystem>

#include "nixie/apps/benchmark/commands/nets_command.h"
#include "nixie/apps/benchmark/subjects/contraction_peer.h"
#include "nixie/apps/benchmark/subjects/contractions.h"

namespace nixie::benchmark {

struct LayersCommand : NetsCommand {
  LayersCommand() { nets = {"alexnet"}; }
  PeerOptions peer = {};  ///< the peer that is timed as well
};

struct LayerRow {
  std::string net = {}, precision = {}, layer = {}, role = {}, shape = {};
  Timing time = {};
  double flop = 0, bytes = 0;   ///< bytes: operands read once and the result written once
  double roofline_ms = 0;       ///< max(flop / matmul ceiling, bytes / copy rate)
  double error = 0, share = 0;  ///< max|diff| / mean|ref|, and the share of the error bound
  PeerTiming peer = {};
  double tflops() const { return flop / time.median / 1e9; }
  double gigabytes_per_second() const { return bytes / time.median / 1e6; }
};

/// Times and checks one contraction by itself, on random operands, in nixie and the peer. Throws Fault::non_finite if
/// it is wrong.
LayerRow time_layer(Backend& backend, const Contraction& contraction, const PrecisionTraits& precision, int runs,
                    ContractionPeer& peer);

/// Prints the table and writes the files. Throws Error.
std::vector<LayerRow> run_layers(const LayersCommand& command);

}  // namespace nixie::benchmark
