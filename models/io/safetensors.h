// safetensors: named arrays in a file that Python can read without executing code from it.
//
// The file: u64 little-endian length of the header, the header (JSON: name -> {dtype, shape, data_offsets}, and texts
// under __metadata__), then the elements in row-major order, without gaps.
// In Python: safetensors.torch.load_file("weights.safetensors") is a state_dict.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nixie/core/base/array.h"

namespace nixie {

struct Safetensors {
  std::map<std::string, Array> arrays = {};
  std::map<std::string, std::string> metadata = {};
  std::vector<std::string> skipped = {};  ///< read: names of arrays of other types than nixie's (`U64`, `C64`)
};

/// Writes the whole file or leaves the old one at `path`. Equal arrays give equal bytes. Throws Fault::storage.
void save_safetensors(const Safetensors& file, const std::filesystem::path& path);

/// Throws Fault::checkpoint, one line with the file and the array, for a file that is damaged or hostile: lengths
/// beyond the file, sizes that do not match type and shape, overlaps, gaps, repeated keys.
Safetensors load_safetensors(const std::filesystem::path& path);

}  // namespace nixie
