// Whether another run of the same configuration did better than the one whose checkpoint a command takes.
#pragma once

#include <filesystem>
#include <string>

namespace nixie {

/// Of a checkpoint in runs/NAME/N a line that names the best run beside it by the figure that `best_by` says, where
/// that one is better, was evaluated on the same data and has a best.h5; else "". Runs that cannot be read are passed
/// over.
std::string better_run_text(const std::filesystem::path& checkpoint);

}  // namespace nixie
