// EventFile: scalars and histograms in TensorBoard's format: records framed by checksums, each an Event in protobuf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nixie/apps/trainer/record/append_file.h"
#include "nixie/apps/trainer/record/replacements.h"

namespace nixie {

/// CRC-32C (Castagnoli), as in RFC 3720.
std::uint32_t crc32c(std::string_view bytes);

struct Scalar {
  std::string tag;  ///< TensorBoard groups by the part before its first slash
  double value;
};

/// Counts of the numbers up to each limit, above the one before.
struct Buckets {
  std::string tag;
  std::vector<double> limits = {}, counts = {};
};

/// A file of its own for each process of a run; TensorBoard reads a folder's files in the order of their names. One of
/// a resumed run tells TensorBoard to forget what earlier files say about later steps.
class EventFile {
 public:
  /// Adds `events.out.tfevents.SECONDS.nixie`, for a run that has done `step`, to `changes`; `open` follows once they
  /// are made. Throws Fault::storage.
  EventFile(Replacements& changes, const Folder& folder, std::int64_t step);
  void open() { file_.emplace(place_); }
  /// The system has them when this returns. Throws Fault::storage.
  void append(std::int64_t step, const std::vector<Scalar>& scalars, const std::vector<Buckets>& histograms = {});
  void sync() { file_->sync(); }

 private:
  FilePlace place_;
  std::optional<AppendFile> file_;
};

}  // namespace nixie
