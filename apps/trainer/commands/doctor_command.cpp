// Nothing is changed but that the folders are tried.
#include "nixie/apps/trainer/commands/command_line.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "nixie/apps/trainer/program/machine.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/doctor.h"
#include "nixie/backends/launched_world.h"
#include "nixie/backends/registry.h"
#include "nixie/core/base/working_folder.h"
#include "nixie/core/files/hdf5.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

void print(const Finding& finding) {
  tell("{:5} {:14} {}\n", finding.is_good ? "ok" : "MEND", finding.part, finding.text);
}

double gibibytes(double bytes) { return bytes / (1 << 30); }

Finding processor() {
  return {"processor", true, fmt::format("{}; {}", processor_name(), machine_text(*make_cpu_backend(), 0))};
}

Finding memory() {
  std::int64_t total = 0, available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::sscanf(line.c_str(), "MemTotal: %ld", &total);
    std::sscanf(line.c_str(), "MemAvailable: %ld", &available);
  }
  constexpr std::int64_t kLeast = 1 << 20;  // KiB
  const std::string text =
      fmt::format("{:.1f} of {:.1f} GiB available", gibibytes(1024.0 * static_cast<double>(available)),
                  gibibytes(1024.0 * static_cast<double>(total)));
  return {"memory", available >= kLeast,
          available >= kLeast ? text : text + "; end other programs, or set smaller batches"};
}

/// Runs are written below the folder that the program is started in.
Finding disk() {
  const fs::path here = working_folder();
  if (here.empty()) return {"runs", false, kNoWorkingFolder};
  struct statvfs disk {};
  if (::statvfs(here.c_str(), &disk) != 0)
    return {"runs", false, here.string() + ": its disk cannot be asked; start in another folder"};
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const fs::path runs = fs::exists(here / "runs") ? here / "runs" : here;
  if (::access(runs.c_str(), W_OK) != 0)
    return {"runs", false, runs.string() + " cannot be written; start in another folder, or name one with --run"};
  constexpr double kLeast = 1 << 30;
  const std::string text = fmt::format("{}, {:.1f} GiB free", runs.string(), gibibytes(free));
  return {"runs", free >= kLeast,
          free >= kLeast ? text : text + "; checkpoints of large models will not fit: free some space"};
}

/// The ranks of a job and how fast they add an array up. The rate is nccl-tests' bus bandwidth: what each rank sends.
Finding ranks(const World& world) {
  constexpr std::int64_t kBytes = 64 << 20;
  constexpr int kRuns = 5;
  const std::shared_ptr<Backend> backend = make_backend("auto", 0, world);
  Step step(*backend, [&](const Inputs& in) -> Outputs { return {{"sum", all_reduce(world, in["x"])}}; });
  const Tensor x = evaluate(zeros({kBytes / 4}), *backend);
  step({{"x", x}}), backend->synchronize();  // compiles, and joins the ranks
  const auto begun = std::chrono::steady_clock::now();
  for (int run = 0; run < kRuns; ++run) step({{"x", x}});
  backend->synchronize();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() / kRuns;
  std::string hosts;
  for (const std::string& host : world.communicator()->hosts()) hosts += (hosts.empty() ? "" : ", ") + host;
  const double sent = 2.0 * kBytes * (world.size() - 1) / world.size();
  return {"ranks", true,
          fmt::format("{} on {}; a sum of {} MiB on {} takes {:.2f} ms, {:.1f} GB/s", world.size(), hosts, kBytes >> 20,
                      backend->name(), 1e3 * seconds, sent / seconds / 1e9)};
}

}  // namespace

bool run_doctor() {
  const World& world = launched_world();
  if (!world.is_alone()) {
    const Finding found = ranks(world);
    if (!world.is_first()) return true;
    print(found);
  }
  const std::vector<Finding> here = {processor(), memory(), disk(), {"HDF5", true, "version " + hdf5::version()}},
                             gpu = examine_cuda();
  bool is_good = true, has_gpu = true;
  for (const Finding& finding : here) print(finding), is_good = is_good && finding.is_good;
  for (const Finding& finding : gpu) print(finding), has_gpu = has_gpu && finding.is_good;
  tell("{}\n",
       has_gpu ? "backend: auto trains on the GPU" : "backend: auto trains on the CPU; for a GPU mend what is marked");
  return is_good;
}

}  // namespace nixie
