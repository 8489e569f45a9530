// `benchmark tune`: measures the algorithms of nets' kernels (docs/cuda.md, Tuning), and the speedup.
#pragma once

#include "nixie/apps/benchmark/commands/nets_command.h"

namespace nixie::benchmark {

/// Uses the nets or the configuration, the precisions, the batch and the runs of the command.
struct TuneCommand : NetsCommand {};

/// Measures for fprop, fprop with bprop and training steps of each net, also what was measured before; each result is
/// printed to stderr and added to the user's table. Then times the net without tuning and with it, in turn. Throws
/// Error.
void run_tune(const TuneCommand& command);

}  // namespace nixie::benchmark
