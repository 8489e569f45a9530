// Nothing is changed but that the folders are tried.
#include "nixie/apps/trainer/commands/doctor_command.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/doctor.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/working_folder.h"
#include "nixie/core/files/hdf5.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

void print(const Finding& finding) {
  tell("{:5} {:14} {}\n", finding.is_good ? "ok" : "MEND", finding.part, finding.text);
}

double gibibytes(double bytes) { return bytes / (1 << 30); }

Finding processor() {
  std::string name = "unknown processor", line;
  for (std::ifstream file("/proc/cpuinfo"); std::getline(file, line);)
    if (line.starts_with("model name")) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  return {"processor", true, fmt::format("{}; {}", name, machine_text(*make_cpu_backend(), 0))};
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

}  // namespace

bool run_doctor() {
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
