// `benchmark scaling`: the cost of a net over its batch, its depth and the side of its images.
#pragma once

#include "nixie/apps/benchmark/commands/nets_command.h"

namespace nixie::benchmark {

/// A net of 3x3 convolutions with 64 channels; varies one of the three sizes at a time. Uses the backend, threads,
/// precisions (the first one), runs and files of the command.
struct ScalingCommand : NetsCommand {};

/// Prints the table and writes the files; every row is timed and checked as those of `nets`. Throws Error.
void run_scaling(const ScalingCommand& command);

}  // namespace nixie::benchmark
