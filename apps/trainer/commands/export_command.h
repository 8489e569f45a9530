// trainer export: a trained model as a file of another format.
#pragma once

#include "nixie/apps/trainer/commands/chosen_checkpoint.h"

namespace nixie {

struct ExportCommand {
  CheckpointChoice checkpoint = {};
  std::filesystem::path out = {};  ///< its suffix names the format: .onnx or .safetensors
  bool fold = false;               ///< ONNX: batch norm into the convolution in front of it
};

/// Prints to stdout what it wrote. Throws Error.
void run_export(const ExportCommand& command);

}  // namespace nixie
