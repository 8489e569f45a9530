// Builds the run as training would, and plans its step without running it.
#include "nixie/apps/trainer/commands/summary_command.h"

#include "nixie/apps/trainer/command.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/report/layer_table.h"
#include "nixie/apps/trainer/report/memory_text.h"
#include "nixie/apps/trainer/trainer.h"

namespace nixie {

std::string summary_text(const TrainConfig& config) {
  Trainer trainer(config, {.reads_init_from = false});
  std::vector<std::int64_t> input = {config.data.batch()};
  for (const std::int64_t size : trainer.model().input_shape()) input.push_back(size);
  const std::string warnings = large_arrays_text(trainer.model());
  return fmt::format("{}\n{}\n{}\n{}", layer_table(config.model, Shape(input)), trainer.summary(), memory_text(trainer),
                     warnings.empty() ? "" : warnings + "\n");
}

void run_dry(const TrainConfig& config) {
  tell("{}", summary_text(config));
  const std::string limit =
      fmt::format("data.{}.limit={}", config.data.kind(), config.data.batch() * config.accumulate);
  Trainer trainer(with_assignments(config, "--dry-run", {limit, "steps=1"}), {.out = stdout});
  trainer.take_memory();
  with_batch_advice(config, [&] { trainer.train(); });
  tell("dry run: one step and one evaluation are done, nothing was written\n");
}

}  // namespace nixie
