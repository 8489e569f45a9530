// Weights: reads named arrays from several file formats, and sets a model's parameters that match them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nixie/core/state/variable.h"
#include "nixie/models/io/checkpoint.h"

namespace nixie {

using NamedArrays = std::map<std::string, Array>;

/// The parameters and buffers in a checkpoint (averaged ones if it has them), a safetensors file or an HDF5 file of
/// arrays by name, distinguished by their first bytes. A plain HDF5 file has no checksum of the whole. Throws
/// Fault::checkpoint; for a file of torch.save the line holds Python code that converts it. `accept` is called with a
/// checkpoint before its arrays are taken; an exception ends reading. `skipped` gets the names of arrays of other types
/// than nixie's, which are left out.
NamedArrays read_weights(const std::filesystem::path& file,
                         const std::function<void(const Checkpoint& checkpoint)>& accept = {},
                         std::vector<std::string>* skipped = nullptr);

/// The outcome for a model's Variables and a file's arrays.
struct WeightReport {
  std::vector<std::string> taken;     ///< names
  std::map<Dtype, int> converted;     ///< how many of these were of another type in the file
  std::vector<std::string> reshaped;  ///< `fc.weight [10, 512] (the file has [1000, 512])`: not taken
  std::vector<std::string> missing;   ///< `fc.weight [10, 512]`: not in the file
  std::vector<std::string> unused;    ///< names that only the file has
  std::vector<std::string> skipped;   ///< names that the file has with another type than nixie's; read_weights has them

  bool is_complete() const { return reshaped.empty() && missing.empty(); }
};

/// One line, or several if not everything matches.
std::string to_string(const WeightReport& report);

/// Sets each Variable that an array matches by name and shape; the others keep their values. Throws
/// Fault::checkpoint, before anything is set, if a value is not finite or outside its Variable's range; the message
/// names `file`, if one is given.
WeightReport set_weights(const Parameters& parameters, const NamedArrays& arrays,
                         const std::filesystem::path& file = {});

}  // namespace nixie
