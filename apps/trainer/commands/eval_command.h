// trainer eval: a trained model's loss, accuracy and metrics over one half of a dataset, or over all of it.
#pragma once

#include <string>
#include <vector>

#include "nixie/apps/trainer/commands/chosen_checkpoint.h"

namespace nixie {

struct EvalCommand {
  CheckpointChoice checkpoint = {};
  std::filesystem::path data = {};            ///< empty: the data of the run
  std::string split = "test";                 ///< or train, or all
  bool confusion = false;                     ///< also prints how often each class is taken for each
  bool csv = false;                           ///< prints a row for each sample; all else goes to stderr
  std::vector<std::string> assignments = {};  ///< of --set
};

/// Prints to stdout. Throws Error.
void run_eval(const EvalCommand& command);

}  // namespace nixie
