// The checkpoint that a command uses: a file, a run folder's best, or the newest run's best; and a run that did better.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace nixie {

struct CheckpointChoice {
  std::filesystem::path file = {};  ///< --checkpoint
  std::filesystem::path run = {};   ///< --run; where neither is given, the newest run in runs/
};

/// The best checkpoint of the run in runs/NAME/N that was saved last.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& runs);

/// The file. Where nothing is named and another run did better, stderr says so. Throws a usage Error without one.
std::filesystem::path chosen_checkpoint(const CheckpointChoice& choice);

/// Names in one line the best run beside that of a checkpoint in runs/NAME/N, by the figure of `best_by`, if it is
/// better, was evaluated on the same data and has a best.h5; else gives "". Skips runs that cannot be read.
std::string better_run_text(const std::filesystem::path& checkpoint);

}  // namespace nixie
