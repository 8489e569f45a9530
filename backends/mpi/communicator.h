// A Communicator by MPI.
#pragma once

#include <memory>

#include "nixie/backends/mpi/heartbeat.h"
#include "nixie/core/graph/world.h"

namespace nixie {

class MpiCommunicator : public Communicator, public Signs {
 public:
  using Communicator::Communicator;
  /// Ends the job: waits for the other ranks, or ends them with the code.
  virtual void finalize() = 0;
  virtual void abort(int code) = 0;
};

/// Opens MPI and joins the job. Throws Fault::device if MPI is missing. To be called once.
std::shared_ptr<MpiCommunicator> open_mpi();

}  // namespace nixie
