// Builds an HDF5 file in memory, because HDF5 1.10 crashes when it writes to a full disk.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "nixie/core/base/array.h"
#include "nixie/core/files/hdf5.h"

namespace nixie::hdf5 {

/// One attribute.
using Value = std::variant<std::int64_t, double, std::string>;

/// The bytes of a finished file.
struct Image {
  std::unique_ptr<std::byte, decltype(&std::free)> bytes{nullptr, &std::free};
  std::int64_t size = 0;
  std::span<std::byte> span() const { return {bytes.get(), static_cast<std::size_t>(size)}; }
};

/// An HDF5 file under construction, in the newest format of HDF5 1.10: all metadata is checksummed, and arrays are
/// chunked with fletcher32. The same calls give the same bytes. One thread at a time
/// may use a Writer.
class Writer {
 public:
  /// `user_block` zero bytes come first (0, or a power of two from 512). `expected_bytes` of arrays will follow; it
  /// only saves copies. Throws Fault::memory.
  Writer(std::int64_t user_block, std::int64_t expected_bytes);
  ~Writer();

  // Paths are absolute; the parent group must exist. All throw Fault::memory naming the path.
  void group(const std::string& path);
  void array(const std::string& path, const Array& array);
  /// A list of texts, stored with the length of the longest.
  void strings(const std::string& path, const std::vector<std::string>& texts);
  /// An attribute of the object at `path`. Texts may have up to 64 KB.
  void attribute(const std::string& path, const std::string& name, const Value& value);
  void attribute(const std::string& path, const std::string& name, const std::vector<double>& values);

  /// Closes the file and returns its bytes, user block included.
  Image finish();

 private:
  struct Memory;  // where HDF5 keeps the file
  void dataset(const std::string& path, Id type, const std::vector<std::int64_t>& sizes, const void* bytes);
  void attribute_of(const std::string& path, const std::string& name, Id type, Id space, const void* bytes);

  Quiet quiet_;
  std::unique_ptr<Memory> memory_;
  std::int64_t user_block_;
  Handle file_;
};

}  // namespace nixie::hdf5
