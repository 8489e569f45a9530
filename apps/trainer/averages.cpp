// Pairs of Variables by name.
#include "nixie/apps/trainer/averages.h"

namespace nixie {

Averages::Averages(const Model& model, const Model& average, double decay) : average_(average), decay_(decay) {
  for (const Variable& variable : model.parameters().all()) {
    pairs_.emplace_back(variable, *average_.parameters().find(variable.name()));
    if (variable.dtype() != pairs_.back().second.dtype()) pairs_.back().second.set(variable.array());
  }
}

void Averages::update(const Tensor& step) const {
  const Tensor n = cast(step, Dtype::f32), kept = minimum(decay_, (1 + n) / (10 + n));
  for (const auto& [variable, average] : pairs_)
    average.set(variable.trainable() ? cast(kept * average + (1 - kept) * variable, average.dtype())
                                     : variable.value());
}

void Averages::restart() const {
  for (const auto& [variable, average] : pairs_) average.set(variable.array());
}

NamedArrays Averages::arrays() const {
  NamedArrays arrays;
  for (const auto& [variable, average] : pairs_) arrays[average.name()] = average.array();
  return arrays;
}

void Averages::set(const NamedArrays& arrays) const {
  const WeightReport report = set_weights(average_.parameters(), arrays);
  if (!report.is_complete())
    fail(Fault::checkpoint, "the checkpoint has no average of every parameter (",
         (report.missing.empty() ? report.reshaped : report.missing)[0], "); resume with the ema it was made with");
}

}  // namespace nixie
