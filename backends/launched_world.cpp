// Launchers tell each rank by the environment that it is one.
#include "nixie/backends/launched_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "nixie/backends/mpi/communicator.h"
#include "nixie/backends/settings/environment.h"
#include "nixie/core/base/one_line.h"

namespace nixie {
namespace {

struct Job {
  std::shared_ptr<MpiCommunicator> communicator;  // null: no launcher
  World world;
  std::shared_ptr<Heartbeat> heartbeat;  // last: it uses the communicator
};

constexpr unsigned kSecondsToEnd = 5;  // then SIGALRM ends what MPI does not

bool is_launched() {
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size ? std::string_view(size) != "1" : std::getenv("PMIX_RANK") != nullptr;
}

std::atomic<MpiCommunicator*> joined{nullptr};

// The main thread may wait for ever, inside MPI or for a GPU whose sums lack a part.
void end_job(MpiCommunicator& communicator, const std::string& line) {
  ::alarm(kSecondsToEnd);
  fmt::print(stderr, "{}\n", one_line(line));
  communicator.abort(static_cast<int>(Fault::device));
}

Job& job() {
  static Job launched = [] {
    if (!is_launched()) return Job{};
    auto communicator = open_mpi();
    joined = communicator.get();
    World world(communicator);
    auto heartbeat = std::make_shared<Heartbeat>(
        *communicator, *communicator, [&ranks = *communicator](const std::string& line) { end_job(ranks, line); },
        Heartbeat::Limits{.silence = std::chrono::seconds(silence_seconds())});
    return Job{std::move(communicator), std::move(world), std::move(heartbeat)};
  }();
  return launched;
}

}  // namespace

const World& launched_world() { return job().world; }

void expect_exchanges(bool expected) {
  if (joined) job().heartbeat->expect_exchanges(expected);
}

void leave_world(int code) {
  constexpr int kInterrupted = 130;
  MpiCommunicator* const communicator = joined;
  if (!communicator) return;
  if (code != 0 && code != kInterrupted) return communicator->abort(code);
  job().world.any(0);  // the others may still have work; their hearts beat meanwhile
  job().heartbeat.reset();
  ::alarm(kSecondsToEnd);
  communicator->finalize();
  ::alarm(0);
}

}  // namespace nixie
