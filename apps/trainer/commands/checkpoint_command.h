// trainer checkpoint: what a checkpoint or safetensors file holds, and whether a checkpoint is whole.
#pragma once

#include <filesystem>
#include <string>

namespace nixie {

/// The contents as text: origin, run, classes, preparation, and every array with its type and shape. Throws
/// Fault::checkpoint.
std::string inspect_text(const std::filesystem::path& file);

/// The configuration that a checkpoint was written with. Throws Fault::checkpoint.
std::string config_of(const std::filesystem::path& file);

}  // namespace nixie
