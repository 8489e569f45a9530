// trainer predict: a trained model's predictions for pictures, tables and arrays.
#pragma once

#include <string>
#include <vector>

#include "nixie/apps/trainer/commands/chosen_checkpoint.h"

namespace nixie {

struct PredictCommand {
  CheckpointChoice checkpoint = {};
  std::vector<std::filesystem::path> pictures = {};  ///< files, and folders of them
  int top = 5;                                       ///< classes shown for each
  bool csv = false;
  std::filesystem::path masks = {};           ///< folder for the masks of a model that names the class of each pixel
  bool overwrite = false;                     ///< replaces masks that are there
  std::vector<std::string> assignments = {};  ///< of --set
};

/// Prints to stdout. A picture that cannot be read is named on stderr and left out; the result is then false.
bool run_predict(const PredictCommand& command);

}  // namespace nixie
