// `benchmark steps`: whole training steps (forward, cross entropy, backward, SGD with momentum) of small nets, timed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nixie::benchmark {

struct StepsCommand {
  std::vector<std::string> nets = {};  ///< of step_nets(); empty: all
  std::string backend = "auto";
  int threads = 0;                  ///< of the CPU, 0 = all
  int batch = 0;                    ///< 0 = each net's own
  int runs = 0;                     ///< timed steps, 0 = as many as fill two seconds, 20 to 200
  double rate = 0.01;               ///< of SGD, whose momentum is 0.9
  std::filesystem::path json = {};  ///< also writes the table there; empty: not written
};

/// A row of the table. The loss is that of the first and the last step; all steps see the same random batch.
struct StepTiming {
  std::string net = {};
  std::int64_t batch = 0, parameters = 0, runs = 0;
  double median_ms = 0, min_ms = 0, max_ms = 0, images_per_second = 0;
  double peak_mb = 0, start_mb = 0;        ///< 1e6 bytes of the process: at most, and before it made the net
  double first_loss = 0, lowest_loss = 0;  ///< of the first step, and of the timed ones
};

/// Times each net in its own process and prints the table row by row. Throws Error: Fault::non_finite if a loss
/// is not finite or did not fall.
void run_steps(const StepsCommand& command);

}  // namespace nixie::benchmark
