// `benchmark show`: a table written by --json as Markdown, in a page, or as a chart.
#pragma once

#include <filesystem>
#include <string>

namespace nixie::benchmark {

struct ShowCommand {
  std::filesystem::path file = {};  ///< written by --json
  std::filesystem::path page = {};  ///< the page with `<!-- benchmark NAME -->` lines for it; empty: it is printed
  std::string name = {};            ///< NAME; empty: the command that wrote it
  bool brief = false;               ///< for `compare` only the ratios
  std::filesystem::path plot = {};  ///< empty: no chart
};

/// Throws a usage Error if the file is no such table.
void run_show(const ShowCommand& command);

}  // namespace nixie::benchmark
