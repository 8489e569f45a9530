// Shared by rows of single products and convolutions: the peer beside them, and the device's roofline.
#pragma once

#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/contraction_peer.h"

namespace nixie::benchmark {

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
