// trainer export: writes a trained model in another file format.
#pragma once

#include <string>
#include <vector>

#include "nixie/apps/trainer/commands/chosen_checkpoint.h"

namespace nixie {

struct ExportCommand {
  CheckpointChoice checkpoint = {};
  std::filesystem::path out = {};  ///< its suffix names the format: .onnx, .safetensors or .h5
  bool fold = false;               ///< ONNX: batch norm into the convolution in front of it
  std::string config = {};         ///< in place of a checkpoint: the model of a configuration, weights of its init_from
  std::string data = {};           ///< its data
  std::vector<std::string> assignments = {};  ///< of --set, for `config`
};

/// Prints to stdout what it wrote. Throws Error.
void run_export(const ExportCommand& command);

}  // namespace nixie
