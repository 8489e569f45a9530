// `benchmark compare`: the nets in nixie and in other frameworks, in turn in one run, with the best peer of each row.
#pragma once

#include "nixie/apps/benchmark/commands/nets_command.h"

namespace nixie::benchmark {

struct CompareCommand : NetsCommand {
  std::filesystem::path peers = "apps/peers";  ///< the folder of the peers' programs
  std::string python = "python3";
  std::vector<std::string> engines = {};  ///< of the peers; empty: all but max-autotune, which compiles for minutes
  double peer_seconds = 600;              ///< time limit of each peer for all its rows
};

/// Prints the ratio table and writes the files, both updated after every net. A peer that is missing, fails
/// or takes too long is named in its rows and skipped; without any peer only nixie's rows are printed. Throws Error:
/// that of the first net that was wrong or did not fit, after all others.
void run_compare(const CompareCommand& command);

}  // namespace nixie::benchmark
