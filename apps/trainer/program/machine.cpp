// Names the processor that the compiler compiled for.
#include "nixie/apps/trainer/program/machine.h"

#include <fstream>
#include <thread>

namespace nixie {
namespace {

constexpr const char* kInstructionSet =
#if defined(__AVX512F__)
    "x86-64 with AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
    "x86-64 with AVX2 and FMA";
#elif defined(__AVX__)
    "x86-64 with AVX";
#elif defined(__x86_64__)
    "any x86-64";
#elif defined(__aarch64__)
    "aarch64 with NEON";
#else
    "any processor of its kind";
#endif

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

std::string machine_text(const Backend& backend, int threads) {
  const int all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int used = threads > 0 ? threads : all;
  return fmt::format("backend {}, {} {}, built for {}", backend.name(), used, used == 1 ? "thread" : "threads",
                     kInstructionSet);
}

}  // namespace nixie
