// Launchers tell each rank by the environment that it is one.
#include "nixie/backends/launched_world.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "nixie/backends/mpi/communicator.h"

namespace nixie {
namespace {

struct Job {
  std::shared_ptr<MpiCommunicator> communicator;  // null: no launcher
  World world;
};

bool is_launched() {
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size ? std::string_view(size) != "1" : std::getenv("PMIX_RANK") != nullptr;
}

std::atomic<MpiCommunicator*> joined{nullptr};

Job& job() {
  static Job launched = [] {
    if (!is_launched()) return Job{};
    auto communicator = open_mpi();
    joined = communicator.get();
    World world(communicator);
    return Job{std::move(communicator), std::move(world)};
  }();
  return launched;
}

}  // namespace

const World& launched_world() { return job().world; }

void leave_world(int code) {
  constexpr int kInterrupted = 130;
  MpiCommunicator* const communicator = joined;
  if (!communicator) return;
  if (code == 0 || code == kInterrupted)
    communicator->finalize();
  else
    communicator->abort(code);
}

}  // namespace nixie
