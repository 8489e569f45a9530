// The tables go to stdout, what is being measured to a terminal alone.
#include "nixie/apps/trainer/profile/profile_command.h"

#include <unistd.h>

#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie {

void run_profile(const TrainConfig& config, const ProfileCommand& command) {
  const bool is_terminal = ::isatty(2) == 1;
  Profile profile;
  const auto measure = [&] {
    profile = take_profile(config, command.steps, [&](const std::string& line) {
      if (is_terminal) fmt::print(stderr, "\r\x1b[K{}", line);
    });
  };
  with_batch_advice(config, measure,
                    [](const TrainConfig& smaller, const std::filesystem::path&) { take_profile(smaller, 1); });
  if (is_terminal) fmt::print(stderr, "\r\x1b[K");
  tell("{}", profile_text(profile));
  if (command.trace.empty()) return;
  write_trace(profile, command.trace);
  tell("\n{}: the same as a trace; open it in chrome://tracing or ui.perfetto.dev\n", command.trace);
}

}  // namespace nixie
