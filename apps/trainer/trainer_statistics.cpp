// A Trainer's rows of statistics, and what they say where a step is not finite.
#include "nixie/apps/trainer/trainer.h"

namespace nixie {

void Trainer::log_statistics() {
  if (!statistics_) return;
  detail_.statistics = statistics_->results();
  if (record_) record_->statistics(state_.step, detail_.statistics, config_.statistics.shadow);
  if (const std::string text = overflow_text(); !text.empty()) progress_.line(text.substr(2));
}

std::string Trainer::overflow_text() const {
  const std::vector<TensorStatistics> rows = statistics();
  const TensorStatistics* first = first_overflow(rows);
  if (!first) return {};
  return fmt::format("; the first infinity or NaN that statistics saw is in the {} of {} at step {}", first->role,
                     first->layer, first->first_overflow);
}

}  // namespace nixie
