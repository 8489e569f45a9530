// `benchmark tune`: measures the ways to compute the kernels of nets (docs/cuda.md, Tuning), and what that bought.
#pragma once

#include "nixie/apps/benchmark/commands/nets_command.h"

namespace nixie::benchmark {

/// Uses the nets or the configuration, the precisions, the batch and the runs of the command.
struct TuneCommand : NetsCommand {};

/// Measures for fprop, fprop with bprop and training steps of each net, whatever was measured before; each finding is
/// printed to stderr and goes into the user's table. Then times the net without tuning and with it, in turn. Throws
/// Error.
void run_tune(const TuneCommand& command);

}  // namespace nixie::benchmark
