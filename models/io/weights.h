// Weights: named arrays out of whatever file holds them, and into a model whose names and shapes they fit.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nixie/core/state/variable.h"

namespace nixie {

using NamedArrays = std::map<std::string, Array>;

/// The parameters and buffers in a checkpoint (averaged ones where it has them), a safetensors file or an HDF5 file of
/// arrays by name, told apart by their first bytes. A plain HDF5 file has no checksum over all of it. Throws
/// Fault::checkpoint; for a file of torch.save the line holds the Python that converts it.
NamedArrays read_weights(const std::filesystem::path& file);

/// What became of a model's Variables and a file's arrays.
struct WeightReport {
  std::vector<std::string> taken;     ///< names
  std::vector<std::string> reshaped;  ///< `fc.weight [10, 512] (the file has [1000, 512])`: not taken
  std::vector<std::string> missing;   ///< `fc.weight [10, 512]`: not in the file
  std::vector<std::string> unused;    ///< names in the file alone

  bool is_complete() const { return reshaped.empty() && missing.empty(); }
};

/// One line, or several where not everything fits.
std::string to_string(const WeightReport& report);

/// Sets each Variable that the arrays have under its name with its shape; the others stay as they are. Throws
/// Fault::checkpoint, before anything is set, where a value is not finite.
WeightReport set_weights(const Parameters& parameters, const NamedArrays& arrays);

}  // namespace nixie
