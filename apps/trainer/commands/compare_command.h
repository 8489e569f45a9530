// trainer compare: several runs side by side, as a table and as curves on a page.
#pragma once

#include <filesystem>
#include <vector>

namespace nixie {

struct CompareCommand {
  std::vector<std::filesystem::path> runs = {};  ///< their folders
  std::filesystem::path html = {};               ///< where the page is written; empty: nowhere
};

/// Prints to stdout. Throws a usage Error for a folder that holds no run.
void run_compare(const CompareCommand& command);

}  // namespace nixie
