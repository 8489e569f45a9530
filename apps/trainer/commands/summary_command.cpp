// Builds the run as training would, and plans its step without running it.
#include "nixie/apps/trainer/commands/summary_command.h"

#include "nixie/apps/trainer/commands/train_command.h"
#include "nixie/apps/trainer/profile/layer_table.h"
#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/report/memory_text.h"
#include "nixie/apps/trainer/trainer.h"

namespace nixie {

namespace {

std::string summary_text(const TrainConfig& config) {
  Trainer trainer(config, {.reads_init_from = false});
  std::string memory;
  within_batch(config, [&] { memory = memory_text(trainer); });
  std::vector<std::int64_t> input = {config.data.batch()};
  for (const std::int64_t size : trainer.model().input_shape()) input.push_back(size);
  const std::string warnings = large_arrays_text(trainer.model());
  return fmt::format("{}\n{}\n{}\n{}", layer_table(config.model, Shape(input)), trainer.summary(), memory,
                     warnings.empty() ? "" : warnings + "\n");
}

}  // namespace

void run_summary(const TrainConfig& config) {
  std::string text;
  with_batch_advice(
      config, [&] { text = summary_text(config); }, try_training);
  tell("{}", text);
}

void run_dry(const TrainConfig& config) {
  run_summary(config);
  const std::string limit =
      fmt::format("data.{}.limit={}", config.data.kind(), config.data.batch() * config.accumulate);
  bool evaluates = true;
  const auto train = [&] {
    Trainer trainer(with_assignments(config, "--dry-run", {limit, "steps=1"}), {.out = stdout});
    evaluates = trainer.evaluates();
    trainer.take_memory();
    within_batch(config, [&] { trainer.train(); });
  };
  with_batch_advice(config, train, try_training);
  tell("dry run: one step {} done, nothing was written\n", evaluates ? "and one evaluation are" : "is");
}

}  // namespace nixie
