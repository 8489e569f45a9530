// InputFile: reads a data file, gzip or not, from start to end, within the sizes of its header.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nixie/core/files/unpacking.h"

struct z_stream_s;

namespace nixie {

/// A stream of bytes; a file that begins with gzip's magic is decompressed on the fly. Errors are Fault::data
/// (Fault::storage for a folder that may not be entered) with the file, the offset in decompressed bytes and advice.
class InputFile {
 public:
  /// Reads at most what `limit` permits of a gzip file at once.
  explicit InputFile(std::filesystem::path path,
                     UnpackingLimit limit = unpacking_limit(0, "unpack the file with gunzip"));
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// The next `count` bytes. Refuses, before reading, a count that the file cannot hold, naming `what`.
  std::vector<std::uint8_t> read(std::uint64_t count, std::string_view what);
  std::uint32_t read_big_endian(std::string_view what);
  /// Throws unless all has been read and, for gzip, the checksum holds.
  void expect_end();

  /// Throws Fault::data: `path at byte N: message`.
  [[noreturn]] void fail_here(const std::string& message) const;

 private:
  // Both return fewer bytes than requested only near the end of the data, and none at its end.
  std::size_t read_some(std::uint8_t* to, std::size_t count);
  std::size_t inflate_some(std::uint8_t* to, std::size_t count);
  bool fill();

  std::filesystem::path path_;
  UnpackingLimit limit_;
  std::ifstream file_;
  std::uint64_t stored_bytes_ = 0, offset_ = 0;
  bool ended_ = false;                // the last gzip member has been read
  std::unique_ptr<z_stream_s> zlib_;  // null for a plain file
  std::array<std::uint8_t, 1 << 16> chunk_;
};

/// A whole small file; throws Fault::data if it is missing or larger than `limit`, Fault::storage if the system refuses
/// to read it.
std::vector<std::uint8_t> read_file(const std::filesystem::path& path, std::uint64_t limit);

/// `bytes` of a file from `offset` on; throws Fault::data if it is missing or too short, Fault::storage if the system
/// refuses to read it.
std::vector<std::uint8_t> read_part(const std::filesystem::path& path, std::int64_t offset, std::int64_t bytes);

}  // namespace nixie
