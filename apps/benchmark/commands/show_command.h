// `benchmark show`: a table that --json wrote before, as Markdown, in a page, and as a chart.
#pragma once

#include <filesystem>
#include <string>

namespace nixie::benchmark {

struct ShowCommand {
  std::filesystem::path file = {};  ///< what --json wrote
  std::filesystem::path page = {};  ///< the page whose lines `<!-- benchmark NAME -->` take it; empty: it is printed
  std::string name = {};            ///< NAME; empty: the command that made it
  bool brief = false;               ///< of `compare` the ratios alone
  std::filesystem::path plot = {};  ///< empty: no chart
};

/// Throws a usage Error for a file that is no such table.
void run_show(const ShowCommand& command);

}  // namespace nixie::benchmark
