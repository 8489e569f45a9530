// A checkpoint: everything a training run needs to go on exactly, in one HDF5 file that h5py and h5dump open.
//
// The file, format 1:
//   bytes 0..511          HDF5 user block: magic NIXIECK1, u32 format version, u32 oldest format whose readers
//                         understand it, u64 bytes that follow the block, their XXH3-128 (canonical), zeros
//   / attributes          format, format_version, writer, layout, mean, deviation
//   /model/<name>         arrays in logical layout under PyTorch's names: convolutions (out, in, h, w), linear (out,
//   in) /ema/<name>           the averaged parameters, where there are any /optimizer            attributes: type and
//   its options; /optimizer/<parameter>/<buffer> arrays /state, /rng          attributes: counters, seeds, best metric
//   /config, /class_names texts
// In Python: {name: torch.from_numpy(d[()]) for name, d in h5py.File("last.h5")["model"].items()} is a state_dict.
//
// Readers take every format up to their own, for ever. None of this may be used by several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nixie/core/base/array.h"

namespace nixie {

struct Checkpoint {
  using Value = std::variant<std::int64_t, double, std::string>;
  using Values = std::map<std::string, Value>;
  using Arrays = std::map<std::string, Array>;

  Arrays model;                             ///< parameters and buffers by name
  Arrays ema;                               ///< averaged parameters by name
  std::string optimizer_type;               ///< `sgd`
  Values optimizer_options;                 ///< its hyper-parameters; `type` is taken
  std::map<std::string, Arrays> optimizer;  ///< parameter name -> buffer name -> array
  Values state;                             ///< step, epoch, cursor, best metric, ...
  Values rng;                               ///< seed and counters
  std::string config;                       ///< the resolved configuration
  std::vector<std::string> class_names;
  std::vector<double> mean, deviation;  ///< per channel, of the normalisation
  std::string writer;                   ///< program version and commit
};

/// Writes the whole file or leaves what stood at `path`: built in memory, written beside it, synced, read back,
/// renamed. Names are printable ASCII without `/` and not only dots; texts hold no zero bytes. Throws Fault::usage for
/// a name or text that is not so, Fault::storage (bytes needed and free) where the disk refuses, Fault::memory.
void save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& path);

struct LoadOptions {
  /// Name and shape of everything the model has: a checkpoint with other names or shapes is refused before any array
  /// is read. Without it the file decides.
  std::optional<std::map<std::string, Shape>> model;
  /// Reads files whose checksum does not match and plain HDF5 files without one.
  bool unchecked = false;
};

/// Throws Fault::checkpoint, one line with the file, the object and the remedy, for a file that is damaged, hostile,
/// newer than this reader, or of another model.
Checkpoint load_checkpoint(const std::filesystem::path& path, const LoadOptions& options = {});

/// Checks the whole file against its checksum. Throws Fault::checkpoint.
void verify_checkpoint(const std::filesystem::path& path);

}  // namespace nixie
