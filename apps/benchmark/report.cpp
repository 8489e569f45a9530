// Collects the rows and writes them as JSON.
#include "apps/benchmark/report.h"

#include <fmt/chrono.h>

#include <ctime>
#include <fstream>
#include <thread>

#include "core/error.h"

namespace nixie::benchmark {

Report::Report(const std::string& command, const std::filesystem::path& file)
    : file_(file),
      content_{{"command", command},
               {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
               {"processor", processor_text()},
               {"compiler", __VERSION__},
               {"rows", nlohmann::json::array()}} {
  if (file_.empty()) return;
  std::ofstream probe(file_, std::ios::app);
  if (!probe) fail(Fault::storage, file_.string(), ": cannot be written; choose another --json");
}

void Report::write() const {
  if (file_.empty()) return;
  std::ofstream file(file_, std::ios::trunc);
  file << content_.dump(2) << '\n' << std::flush;
  if (!file) fail(Fault::storage, file_.string(), ": writing failed; free space or choose another --json");
}

std::string processor_text() {
  std::string name = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{}, {} cores", name, std::thread::hardware_concurrency());
}

}  // namespace nixie::benchmark
