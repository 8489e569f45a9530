// A checkpoint: everything a training run needs to resume exactly, in one HDF5 file that h5py and h5dump open.
// The trainer fills it in apps/trainer/snapshot.h, other programs use models/io/save.h.
//
// The file, format 2:
//   bytes 0..511          HDF5 user block: magic NIXIECK1, u32 format version, u32 oldest format whose readers
//                         understand it, u64 bytes that follow the block, their XXH3-128 (canonical), zeros
//   / attributes          format, format_version, writer, layout, input_shape, short_side, mean, deviation,
//                         upright (since format 2)
//   /model/<name>         arrays in logical layout under PyTorch's names: convolutions (out, in, h, w),
//                         linear (out, in)
//   /ema/<name>           averages, where there are any; those of a run are of all that /model holds
//   /optimizer            attributes: type and its options
//   /optimizer/<parameter>/<buffer>   arrays
//   /state, /rng          attributes: counters, seeds, best metric
//   /config, /class_names texts
// In Python: {name: torch.from_numpy(d[()]) for name, d in h5py.File("last.h5")["model"].items()} is a state_dict.
//
// Readers support every format up to their own, for ever, and refuse unknown contents. Several
// threads may save and load at once if HDF5 was built thread-safe, as Debian's is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nixie/core/base/array.h"
#include "nixie/core/files/array_form.h"
#include "nixie/core/files/folder.h"

namespace nixie {

struct Checkpoint {
  using Value = std::variant<std::int64_t, double, std::string>;
  using Values = std::map<std::string, Value>;
  using Arrays = std::map<std::string, Array>;

  Arrays model;                             ///< parameters and buffers by name
  Arrays ema;                               ///< averages by name; a run's are of the whole model
  std::string optimizer_type;               ///< `sgd`
  Values optimizer_options;                 ///< its hyper-parameters; the name `type` is reserved
  std::map<std::string, Arrays> optimizer;  ///< parameter name -> buffer name -> array
  Values state;                             ///< step, epoch, cursor, best metric, ...
  Values rng;                               ///< seed and counters
  std::string config;                       ///< the resolved configuration
  std::vector<std::string> class_names;
  std::vector<double> input_shape;      ///< [C, H, W] of a sample
  std::int64_t short_side = 0;          ///< a picture is scaled to it before the sample is cropped from its centre
  std::vector<double> mean, deviation;  ///< per channel, of the normalisation
  bool upright = false;                 ///< a picture is turned as its EXIF orientation says
  std::string writer;                   ///< the program and its version
};

/// `/optimizer/fc.weight/exp_avg_sq` for the first floating array of the checkpoint with an infinite or NaN element;
/// "" if all are finite.
std::string non_finite_array(const Checkpoint& checkpoint);

/// Throws Fault::checkpoint, naming the file, where some averages are there and others are not, since averages and raw
/// weights would be mixed; or where one has another shape than its array of the model.
void check_averages(const Checkpoint& checkpoint, const std::filesystem::path& file);

/// Writes the whole file or leaves the old one: builds it in memory, writes it beside its place, syncs, reads it back,
/// renames. Names are printable ASCII without `/` and not only dots; texts hold no zero bytes. Throws
/// Fault::usage for an invalid name or text, Fault::non_finite for an array that is not finite, Fault::storage (bytes
/// needed and free) if the disk refuses, Fault::memory.
void save_checkpoint(const Checkpoint& checkpoint, const FilePlace& place);

/// Throws Fault::usage if a name or a text of the checkpoint cannot be saved, so that a run fails before it begins.
void check_storable(const Checkpoint& checkpoint);

struct LoadOptions {
  /// The model's arrays: a checkpoint with other names, shapes or types is refused before any array is read; its
  /// averaged parameters must match, too. Without it, anything the file's size permits is accepted.
  std::optional<ArrayForms> model = {};
  /// The optimizer's buffers, by parameter; others are refused, too.
  std::optional<std::map<std::string, ArrayForms>> optimizer = {};
  /// Called with everything except arrays, before any array is read; an exception ends loading. It may set `model` and
  /// `optimizer` here to what the header calls for.
  std::function<void(const Checkpoint& header)> accept = {};
  bool header_only = false;  ///< no array is read
  /// Also reads files whose checksum does not match and plain HDF5 files without one. Only HDF5's own checksums then
  /// apply; they do not detect a chunk (1 MiB) whose bytes are all zero.
  bool unchecked = false;
};

/// Throws Fault::checkpoint, one line with the file, the object and the remedy, for a file that is damaged, hostile,
/// newer than this reader, of another model, or with an unknown object or an array that is not finite.
Checkpoint load_checkpoint(const FilePlace& place, const LoadOptions& options = {});

/// Checks the whole file against its checksum. Throws Fault::checkpoint.
void verify_checkpoint(const FilePlace& place);

}  // namespace nixie
