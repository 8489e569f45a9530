// trainer checkpoint: prints the contents of a checkpoint or safetensors file, and verifies checkpoints.
#pragma once

#include <filesystem>
#include <string>

namespace nixie {

/// The contents as text: origin, run, classes, preparation, each array's type and shape. Throws Fault::checkpoint.
std::string inspect_text(const std::filesystem::path& file);

/// The configuration that a checkpoint was written with. Throws Fault::checkpoint.
/// The differences of two files: the configurations, the counters, and each array with its largest difference; "" where
/// nothing does. `same` is set to whether they are equal.
std::string difference_text(const std::filesystem::path& first, const std::filesystem::path& second, bool& same);

/// Writes a checkpoint of any format again in the newest, or its model (averages where there are any) as safetensors
/// where `out` ends so. Throws a usage Error where `out` exists.
void convert_checkpoint(const std::filesystem::path& in, const std::filesystem::path& out);

std::string config_of(const std::filesystem::path& file);

}  // namespace nixie
