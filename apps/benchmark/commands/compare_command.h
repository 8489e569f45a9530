// `benchmark compare`: the nets here and in other frameworks, in turn in one run, with the best peer of each row.
#pragma once

#include "nixie/apps/benchmark/commands/nets_command.h"

namespace nixie::benchmark {

struct CompareCommand : NetsCommand {
  std::filesystem::path peers = "apps/peers";  ///< the folder of the peers' programs
  std::string python = "python3";
  std::vector<std::string> engines = {};  ///< of the peers; empty: all but max-autotune, which compiles for minutes
  double peer_seconds = 600;              ///< that each peer may take for all its rows
};

/// Prints the ratio table and writes the files, both after every net as far as they go. A peer that is missing, fails
/// or takes too long is said in its rows and left out; without any peer the own rows stand alone. Throws Error: that of
/// the first net that was wrong or did not fit, after all others.
void run_compare(const CompareCommand& command);

}  // namespace nixie::benchmark
