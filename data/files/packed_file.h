// PackedFile: images of one size as bytes in one memory-mapped file, with a checksum per block.
//
//   "nixiepak", u32 version, u32 bytes of the header, the header (JSON), padding to 4096 bytes
//   sample after sample in C, H, W order, then u32 labels
//   u64 XXH3 checksums: of everything before the samples, of each block of samples, of the labels, of these
// Numbers are little-endian.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nixie/core/base/shape.h"

namespace nixie {

struct PackedHeader {
  std::int64_t samples = 0;
  Shape sample_shape = {};
  std::int64_t block = 0;  ///< samples per checksum
  std::vector<std::string> class_names = {};
  std::vector<double> mean = {}, deviation = {};  ///< per channel, of pixels in [0, 1]
  bool upright = false;                           ///< pictures were turned as their EXIF orientation says

  std::int64_t sample_bytes() const { return sample_shape.size(); }
  std::int64_t blocks() const { return (samples + block - 1) / block; }
};

/// The bytes before the samples.
std::string packed_front(const PackedHeader& header);
/// XXH3, 64 bits.
std::uint64_t packed_checksum(std::span<const std::byte> bytes);

/// Reads without copying, from any thread. The file must not be truncated while it is open.
class PackedFile {
 public:
  /// Checks everything except the samples. Throws Fault::data naming the file.
  explicit PackedFile(std::filesystem::path path);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const PackedHeader& header() const { return header_; }
  const std::vector<std::uint32_t>& labels() const { return labels_; }
  /// The checksum of the checksums, which covers the whole file.
  std::uint64_t checksum() const { return checksum_; }
  /// Checks its block on the first read. Throws Fault::data naming the file, the byte and the samples.
  std::span<const std::uint8_t> sample(std::int64_t index) const;

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  void map();
  std::int64_t read_front();
  void check_block(std::int64_t block) const;
  template <class T>
  T number_at(std::int64_t offset) const;

  std::filesystem::path path_;
  const std::byte* bytes_ = nullptr;
  std::int64_t size_ = 0, first_sample_ = 0, checksums_ = 0;  // offsets
  PackedHeader header_;
  std::vector<std::uint32_t> labels_;
  std::uint64_t checksum_ = 0;
  std::unique_ptr<std::atomic<bool>[]> is_checked_;
};

}  // namespace nixie
