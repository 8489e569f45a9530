// Says what is due after a step of a run, and counts rows and evaluations in the run's state.
#pragma once

#include "nixie/apps/trainer/record/run_state.h"
#include "nixie/configs/parse/config.h"

namespace nixie {

/// Whether an evaluation follows the state's last step.
bool is_evaluation_due(const TrainConfig& config, const RunState& state);
/// Whether a row of training does, besides those of evaluations.
bool is_row_due(const TrainConfig& config, const RunState& state);
/// Whether a run that nobody disturbs saves this state: it was evaluated, or save_every is due.
bool is_scheduled(const TrainConfig& config, const RunState& state);
bool is_out_of_patience(const TrainConfig& config, const RunState& state);
/// Whether the run may have been killed when last.h5 was written, before it was kept under its step's name.
bool may_lack_kept(const RunState& state);

/// A row of training was written.
void count_row(RunState& state);
/// An evaluation was made; whether it is the best of the run, as any is that `replaces_best`.
bool count_evaluation(RunState& state, double score, bool replaces_best);

}  // namespace nixie
