// The first 512 bytes of a checkpoint: magic, format version, length and checksum, checked before HDF5 reads the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "nixie/core/files/folder.h"

namespace nixie {

inline constexpr std::int64_t kBlockBytes = 512;
/// The format this program writes, and the newest it reads.
inline constexpr std::uint32_t kCheckpointFormat = 2;

/// Fills the block at the start of a finished file with the length and XXH3-128 of the rest.
void write_block(std::span<std::byte> file);

/// A checkpoint's file, held open.
class CheckpointFile {
 public:
  /// Throws Fault::checkpoint where there is no such file, Fault::storage where the system does not open it.
  explicit CheckpointFile(const FilePlace& place) : CheckpointFile(place, place.path().string()) {}
  /// `name`: what messages call it.
  CheckpointFile(const FilePlace& place, std::string name);
  ~CheckpointFile();
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  /// Throws Fault::checkpoint, naming the file and the remedy, unless the block and the rest are as they were written
  /// and the format is at most kCheckpointFormat. With `unchecked` it only refuses a newer format. Gives the file's
  /// format, 0 where the block is none. Call it once.
  std::uint32_t check_block(bool unchecked);
  int descriptor() const { return file_; }

 private:
  /// Fills as much of the buffer as the file holds.
  std::size_t read(void* buffer, std::size_t bytes);
  [[noreturn]] void fail_reading(const char* what, int error) const;
  [[noreturn]] void refuse(const std::string& what, const char* remedy = "use another or an older checkpoint") const;

  std::string name_;
  int file_;
  std::int64_t bytes_ = 0;
};

}  // namespace nixie
