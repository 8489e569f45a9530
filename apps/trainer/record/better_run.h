// Whether another run of the same configuration did better than the one whose checkpoint a command takes.
#pragma once

#include <filesystem>
#include <string>

namespace nixie {

/// Names in one line the best run beside that of a checkpoint in runs/NAME/N, by the figure of `best_by`, if it is
/// better, was evaluated on the same data and has a best.h5; else gives "". Skips runs that cannot be read.
std::string better_run_text(const std::filesystem::path& checkpoint);

}  // namespace nixie
