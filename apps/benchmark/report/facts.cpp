// Asks /proc and nvidia-smi.
#include "nixie/apps/benchmark/report/facts.h"

#include <fmt/chrono.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include <benchmark_commit.h>

namespace nixie::benchmark {
namespace {

/// The lines that a command prints; empty if it cannot run.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, got);
  return ::pclose(pipe) == 0 ? text : "";
}

}  // namespace

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

nlohmann::json program_facts() {
  return {{"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"processor", processor_text()},
          {"compiler", __VERSION__},
          {"commit", NIXIE_COMMIT}};
}

nlohmann::json device_facts(const Backend& backend, const std::string& machine) {
  nlohmann::json facts{{"backend", backend.name()}, {"program", machine}};
  if (backend.name() != "cuda") return facts;
  static constexpr const char* kAsked[][2] = {{"device", "name"},
                                              {"driver", "driver_version"},
                                              {"sm_clock", "clocks.sm"},
                                              {"memory_clock", "clocks.mem"},
                                              {"power", "power.draw"},
                                              {"power_limit", "power.limit"},
                                              {"temperature", "temperature.gpu"}};
  std::string query;
  for (const auto& [key, field] : kAsked) query += (query.empty() ? "" : ",") + std::string(field);
  const std::string answer = output_of("nvidia-smi --format=csv,noheader --query-gpu=" + query);
  std::istringstream first(answer.substr(0, answer.find('\n')));  // a line per device
  for (const auto& [key, field] : kAsked) {
    std::string value;
    std::getline(first >> std::ws, value, ',');
    facts[key] = value.empty() ? "unknown" : value;
  }
  return facts;
}

std::string facts_text(const nlohmann::json& facts) {
  const auto get = [&](const char* key) { return facts.value(key, std::string("unknown")); };
  std::string text = fmt::format("{}, {}\n", get("processor"), get("program"));
  if (facts.contains("device"))
    text += fmt::format("{}, driver {}, SM clock {}, memory clock {}, {} of {}\n", get("device"), get("driver"),
                        get("sm_clock"), get("memory_clock"), get("power"), get("power_limit"));
  return text + fmt::format("commit {}, {}\n", get("commit"), get("date"));
}

}  // namespace nixie::benchmark
