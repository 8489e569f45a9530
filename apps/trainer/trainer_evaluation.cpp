// The evaluations of a Trainer: what of them is best, and what is saved then.
#include <algorithm>
#include <cmath>
#include <utility>

#include "nixie/apps/trainer/trainer.h"

namespace nixie {

// Larger is better.
double Trainer::score(const Evaluation& result) const {
  if (config_.best_by == "accuracy" && !std::isnan(result.accuracy)) return result.accuracy;
  if (config_.best_by == "accuracy" || config_.best_by == "loss") return -result.loss;
  const auto found = std::find_if(result.metrics.begin(), result.metrics.end(),
                                  [&](const auto& metric) { return metric.first == config_.best_by; });
  const AnyMetric& metric = config_.metrics[static_cast<std::size_t>(found - result.metrics.begin())];
  return metric.is_error() ? -found->second : found->second;
}

bool Trainer::is_out_of_patience() const {
  return config_.patience > 0 && state_.evaluations_since_best >= config_.patience;
}

bool Trainer::evaluate_and_save(const std::function<bool()>& stop) {
  progress_.pause();
  if (!evaluator_) {
    state_.evaluated = state_.step;  // what an evaluation would be followed by is done
    save({"last.h5"}, config_.keep);
    write_report();
    return progress_.resume(), true;
  }
  if (!evaluation_) evaluation_ = or_save([&] { return evaluator_->run(stop); });
  if (!evaluation_) {  // stopped inside it: a resume begins with it
    save({"last.h5"});
    return false;
  }
  const Evaluation& result = *evaluation_;
  if (!std::isfinite(result.loss)) fail_non_finite(kTestLoss, state_.step);
  const std::int64_t epoch = (state_.step - 1) / steps_per_epoch_ + 1;
  std::string line = config_.evaluate_every > 0 ? fmt::format("step {} {}", state_.step, to_string(result))
                                                : fmt::format("epoch {} {}", epoch, to_string(result));
  Figures figures{
      .epoch = epoch, .step = state_.step, .loss = result.loss, .accuracy = result.accuracy, .rate = rate()};
  for (const auto& [name, value] : result.metrics) {
    line += fmt::format(" {} {:.4f}", name, value);
    figures.metrics.push_back(value);
  }
  if (record_) record_->evaluation(figures);
  progress_.line(line);
  tell(&Callback::evaluation_ends, result);
  optimizer_.schedule().observe(config_.schedule.maximizes() ? result.accuracy : result.loss);
  state_.evaluated = state_.step;
  const bool is_best = std::exchange(lacks_best_, false) || score(result) > state_.best_score;
  if (is_best) state_.best_score = score(result);
  state_.evaluations_since_best = is_best ? 0 : state_.evaluations_since_best + 1;
  // best.h5 before last.h5, which says that it is there.
  save(is_best ? std::vector<std::string>{"best.h5", "last.h5"} : std::vector<std::string>{"last.h5"}, config_.keep);
  write_report();
  progress_.resume();
  if (is_out_of_patience())
    progress_.line(fmt::format("no better {} in {} evaluations: the run ends",
                               std::isnan(result.accuracy) && config_.best_by == "accuracy" ? "loss" : config_.best_by,
                               config_.patience));
  return true;
}

Evaluation Trainer::evaluate() {
  check(evaluates(), "trainer: nothing is held out (holdout: 0), so there is nothing to evaluate on");
  if (!evaluation_) evaluation_ = evaluator_->run();
  return *evaluation_;
}

}  // namespace nixie
