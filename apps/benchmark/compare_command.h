// `benchmark compare`: the nets here and in other frameworks, in turn in one run, with the best peer of each row.
#pragma once

#include "apps/benchmark/nets_command.h"

namespace nixie::benchmark {

struct CompareCommand : NetsCommand {
  std::filesystem::path peers = "apps/peers";  ///< the folder of the peers' programs
  std::string python = "python3";
  std::vector<std::string> engines = {};  ///< of the peers; empty: all but max-autotune, which compiles for minutes
};

/// Prints the ratio table and writes the files. Without any peer it prints the own rows and says so. Throws Error.
void run_compare(const CompareCommand& command);

}  // namespace nixie::benchmark
