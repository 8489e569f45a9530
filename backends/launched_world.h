// The World of a job that a launcher started, such as mpirun -np 4 or srun --mpi=pmix.
#pragma once

#include "nixie/core/graph/world.h"

namespace nixie {

/// The ranks of the job; this process alone where no launcher of several ranks started it. Opens MPI on the first call
/// under a launcher: libmpi.so.40 of Open MPI 4 or 5. Throws Fault::device where that is missing. From then on a rank
/// of which nothing is heard for 7 s (NIXIE_SILENCE) ends the job (Heartbeat): a line names it, the exit code is that
/// of Fault::device.
const World& launched_world();

/// Whether the calling rank of the job is inside of work that exchanges something every few seconds, such as a training
/// step that is compiled: if it does not, it hangs and ends the job.
void expect_exchanges(bool expected);

/// Ends this rank's part in the job, before the program ends with `code`: waits for the other ranks where `code` is
/// that of a work that all ranks end together (0, or 130 after a signal), else ends them all.
void leave_world(int code);

}  // namespace nixie
