// `benchmark arrays`: nervanagpu's array workloads and similar ones, each checked, on a GPU beside the CPU.
#pragma once

#include <filesystem>

#include "nixie/apps/trainer/profile/timing.h"

namespace nixie::benchmark {

struct ArraysCommand {
  std::string backend = "auto";
  int threads = 0;  ///< of the CPU, 0 = all
  int runs = 10;
  std::int64_t largest = 0;  ///< elements of the largest array; 0 = 1e9 on a GPU, 1e7 on a CPU
  std::filesystem::path json = {}, csv = {}, plot = {};  ///< empty: not written
};

struct ArrayRow {
  std::string workload = {}, precision = {};
  std::int64_t elements = 0;
  Timing time = {};
  double bytes = 0, flop = 0;   ///< that any implementation must move and compute
  double error = 0, bound = 0;  ///< max|diff| / mean|ref|
  double cpu_ms = 0;            ///< on this machine's CPU; 0: not measured
  double gigabytes_per_second() const { return bytes / time.median / 1e6; }
  double tflops() const { return flop / time.median / 1e9; }
};

/// Prints the table and writes the files. Throws Error: Fault::non_finite if a result is wrong.
std::vector<ArrayRow> run_arrays(const ArraysCommand& command);

}  // namespace nixie::benchmark
