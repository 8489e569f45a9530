// The bytes are those of the plan of a training step.
#include "nixie/apps/trainer/report/memory_text.h"

namespace nixie {
namespace {

constexpr std::int64_t kLargeArray = 50'000'000;

std::string mebibytes(std::int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

std::int64_t bytes_of(const Parameters& parameters) {
  std::int64_t bytes = 0;
  for (const Variable& variable : parameters.all()) bytes += variable.shape().size() * size_of(variable.dtype());
  return bytes;
}

}  // namespace

std::string memory_text(Trainer& trainer) {
  return fmt::format("memory: parameters {}, optimizer {}, values of a training step {}",
                     mebibytes(bytes_of(trainer.model().parameters())),
                     mebibytes(bytes_of(trainer.optimizer().state())),
                     mebibytes(static_cast<std::int64_t>(trainer.plan().arena_bytes)));
}

std::string large_arrays_text(const Model& model) {
  std::string text;
  for (const Variable& variable : model.parameters().trainable())
    if (variable.shape().size() >= kLargeArray)
      text += fmt::format("{}warning: {} {} has {} parameters; is the input {} meant?", text.empty() ? "" : "\n",
                          variable.name(), variable.shape(), variable.shape().size(), model.input_shape());
  return text;
}

}  // namespace nixie
