// Statistics are checked even where none are asked for: a key that is wrong is wrong in any case.
#include "nixie/apps/trainer/record/run_statistics.h"

namespace nixie {

std::optional<Statistics> statistics_of(const TrainConfig& config, const Model& model) {
  return at_key(config.places, "statistics", [&]() -> std::optional<Statistics> {
    Statistics statistics(config.statistics, config.policy(), model.formats());
    return config.statistics.every > 0 ? std::optional(std::move(statistics)) : std::nullopt;
  });
}

std::string overflow_text(const std::vector<TensorStatistics>& rows) {
  const TensorStatistics* first = first_overflow(rows);
  if (!first) return {};
  return fmt::format("the first infinity or NaN that statistics saw is in the {} of {} at step {}", first->role,
                     first->layer, first->first_overflow);
}

}  // namespace nixie
