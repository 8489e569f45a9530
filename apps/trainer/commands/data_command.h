// trainer data: inspects a dataset, shows it, lists its halves, verifies that all of it can be read, and writes a
// packed copy for fast reading.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nixie {

struct DataCommand {
  std::string action = {};                    ///< inspect, show, split, verify or pack
  std::filesystem::path source = {};          ///< a folder as --data takes it
  std::filesystem::path out = {};             ///< of pack: a folder; of show: a page, by default data.html
  std::filesystem::path config = {};          ///< of show: a configuration whose data and augmentation are shown
  std::int64_t side = 0;                      ///< of samples of pictures; 0: what most pictures have, 256 at most
  std::vector<std::string> assignments = {};  ///< of --set
};

/// Prints to stdout; false where samples are damaged, which are then named. Throws Error.
bool run_data(const DataCommand& command);

}  // namespace nixie
