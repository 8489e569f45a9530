// Builds the run as training would, and plans its step without running it.
#include "nixie/apps/trainer/commands/summary_command.h"

#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/report/layer_table.h"
#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

constexpr std::int64_t kLargeArray = 50'000'000;

std::string mebibytes(std::int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

std::int64_t bytes_of(const Parameters& parameters) {
  std::int64_t bytes = 0;
  for (const Variable& variable : parameters.all()) bytes += variable.shape().size() * size_of(variable.dtype());
  return bytes;
}

std::string warnings(const Model& model) {
  std::string text;
  for (const Variable& variable : model.parameters().trainable())
    if (variable.shape().size() >= kLargeArray)
      text += fmt::format("warning: {} {} has {} parameters; is the input {} meant?\n", variable.name(),
                          variable.shape(), variable.shape().size(), model.input_shape());
  return text;
}

}  // namespace

std::string summary_text(const TrainConfig& config) {
  Trainer trainer(config, {.reads_init_from = false});
  std::vector<std::int64_t> input = {config.data.batch()};
  for (const std::int64_t size : trainer.model().input_shape()) input.push_back(size);
  return fmt::format("{}\n{}\nmemory: parameters {}, optimizer {}, values of a training step {}\n{}",
                     layer_table(config.model, Shape(input)), trainer.summary(),
                     mebibytes(bytes_of(trainer.model().parameters())),
                     mebibytes(bytes_of(trainer.optimizer().state())),
                     mebibytes(static_cast<std::int64_t>(trainer.plan().arena_bytes)), warnings(trainer.model()));
}

void run_dry(const TrainConfig& config) {
  tell("{}", summary_text(config));
  const std::string limit =
      fmt::format("data.{}.limit={}", config.data.kind(), config.data.batch() * config.accumulate);
  Trainer trainer(with_assignments(config, "--dry-run", {limit, "steps=1"}), {.out = stdout});
  trainer.train();
  tell("dry run: one step and one evaluation are done, nothing was written\n");
}

}  // namespace nixie
