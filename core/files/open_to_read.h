// FileToRead: a file that somebody names, open; read_text: reads it whole; open_to_read: as a stream; fail_reading:
// what it is where that fails.
#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "nixie/core/base/error.h"
#include "nixie/core/files/folder.h"

namespace nixie {

/// The fault where a file or folder cannot be read, for its errno: that of its kind if the name is wrong, Fault::memory
/// if there is none, else Fault::storage. A file that the system refuses (permissions, descriptors, the disk) may be
/// whole.
Fault fault_of_reading(int error, Fault of_kind);

/// The advice where the system refuses a file, for its errno: `check the disk`.
std::string_view system_remedy(int error);

/// Throws that fault, `PATH: cannot be read: REASON; ADVICE`: `advice` if the name is wrong, else system_remedy.
[[noreturn]] void fail_reading(const std::filesystem::path& path, int error, Fault of_kind, std::string_view advice);

/// A file from its start. Throws as fail_reading does.
class FileToRead {
 public:
  /// A pipe would be waited for, a device may never end: either is refused but for `any`.
  enum class Kind : std::uint8_t { regular, any };
  FileToRead(const FilePlace& place, Fault fault, std::string_view advice, Kind kind = Kind::regular);
  ~FileToRead();
  FileToRead(const FileToRead&) = delete;
  FileToRead& operator=(const FileToRead&) = delete;

  /// Fills the bytes, or as many as there still are, and returns their number.
  std::size_t read(std::span<char> bytes);
  int descriptor() const { return file_; }

 private:
  std::filesystem::path path_;
  Fault fault_;
  std::string advice_;
  int file_;
};

/// All bytes of a regular file.
std::string read_text(const FilePlace& place, Fault fault, std::string_view advice);

/// A regular file as a stream, which ends early at a fault of the disk. Throws as fail_reading does.
std::ifstream open_to_read(const std::filesystem::path& path, Fault fault, std::string_view advice);

}  // namespace nixie
