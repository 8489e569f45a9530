// The checkpoint that a command uses: a file, a run folder's best, or the newest run's best.
#pragma once

#include <filesystem>
#include <optional>

namespace nixie {

struct CheckpointChoice {
  std::filesystem::path file = {};  ///< --checkpoint
  std::filesystem::path run = {};   ///< --run; where neither is given, the newest run in runs/
};

/// The best checkpoint of the run in runs/NAME/N that was saved last.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& runs);

/// The file. Where nothing is named and another run did better, stderr says so. Throws a usage Error without one.
std::filesystem::path chosen_checkpoint(const CheckpointChoice& choice);

}  // namespace nixie
