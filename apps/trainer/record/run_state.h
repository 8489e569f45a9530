// RunState: the part of a run that is neither in the model nor in the optimizer, as a checkpoint's /state holds it; and
// what any checkpoint of a run may hold, the same for whoever reads it.
#pragma once

#include <cmath>
#include <filesystem>

#include "nixie/data/dataset.h"
#include "nixie/data/preparation.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/io/weights.h"

namespace nixie {

/// Times that a run goes back to a checkpoint (`non_finite: roll_back`) before it ends.
inline constexpr std::int64_t kMostRollBacks = 5;

/// The loader's position is not stored: it is computed from the step.
struct RunState {
  std::int64_t step = 0;       ///< steps done
  std::int64_t logged = 0;     ///< the step of the last log row
  double loss_sum = 0;         ///< of the steps since that row
  double accuracy_sum = 0;     ///< the same
  double best_score = -1e300;  ///< of the evaluations so far: a larger one is better
  std::int64_t evaluations_since_best = 0;
  std::int64_t skipped = 0;    ///< steps since the last log row that changed nothing
  std::int64_t evaluated = 0;  ///< the step of the last evaluation
  std::int64_t steps_per_epoch = 0;
  std::int64_t metrics_bytes = -1;         ///< the size of metrics.csv; -1: not known
  std::string metrics_checksum = {};       ///< of metrics.csv; "": not known
  std::vector<std::int64_t> returns = {};  ///< the steps that the run went back to, one after another
  std::int64_t went_back_to = -1;  ///< the last of them, where no checkpoint of the schedule came since; -1: none

  /// The factor of the schedule's rate.
  double rate_factor() const { return std::ldexp(1.0, -static_cast<int>(returns.size())); }
};

/// The value of a name, which must be there and of this kind.
template <class T>
T value_of(const Checkpoint::Values& values, const std::string& name) {
  const auto found = values.find(name);
  const T* value = found == values.end() ? nullptr : std::get_if<T>(&found->second);
  if (!value) fail(Fault::checkpoint, "the checkpoint has no ", name, "; it was not written by a training run");
  return *value;
}
template <class T>
T value_or(const Checkpoint::Values& values, const std::string& name, T otherwise) {
  return values.contains(name) ? value_of<T>(values, name) : otherwise;
}

Checkpoint::Values values_of(const RunState& state);
/// The sizes and the fingerprints of both halves; what is not known is left out.
Checkpoint::Values values_of(const Splits& data);
/// Reads older checkpoints, too, which lack some numbers. Throws Fault::checkpoint where one that all have is missing.
RunState run_state_of(const Checkpoint::Values& values);

/// Throws Fault::checkpoint, one line that names the file, for what no run writes: unknown names, values of another
/// kind, numbers out of their range, samples of an impossible size or normalisation. Needs no arrays. The numbers of
/// the optimizer (`shared.step`) are only looked at by who has one.
void check_run_header(const std::filesystem::path& file, const Checkpoint& header);
/// The same for a number that every run has where it is missing: nothing goes on without it.
void check_run_state(const std::filesystem::path& file, const Checkpoint& header);
/// The same for averages that are not complete, or not there as the run's own `ema` calls for; an exported checkpoint,
/// which has no optimizer, has none. `ema` is nothing where the run's configuration cannot be read.
void check_run_averages(const std::filesystem::path& file, const Checkpoint& checkpoint, std::optional<double> ema);

/// The weights of a file for a model to begin with (`init_from`): those of a run are checked like those of any other
/// reader, but for names, shapes and types, which need not match.
/// `skipped` as of read_weights.
NamedArrays first_weights(const std::filesystem::path& file, std::vector<std::string>* skipped = nullptr);

}  // namespace nixie
