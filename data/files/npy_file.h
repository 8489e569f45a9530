// NpyFile: reads numpy's arrays from .npz archives or folders of .npy files, which may be damaged or hostile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nixie/data/files/array_source.h"

namespace nixie {

/// Whether a folder's file is an array: its name ends in .npy and begins without a dot.
bool is_npy_name(const std::filesystem::path& file);

/// The arrays of a .npz file, or the .npy files of a folder, by name.
class NpyFile final : public ArraySource {
 public:
  /// Reads the file, or the folder's names. Throws Fault::data naming the file if it is no such archive.
  /// Each array may unpack to `unpack` GiB, with 0 to a quarter of the free memory.
  explicit NpyFile(std::filesystem::path file, double unpack = 0);

  std::vector<std::string> names() const override;
  /// Throws Fault::data naming file and array if it is damaged, in Fortran order, big-endian or without numbers.
  NumberArray array(const std::string& name) const override;

 private:
  struct Entry {
    std::uint64_t offset = 0, stored = 0, size = 0;
    std::uint32_t checksum = 0;
    bool deflated = false;
    std::filesystem::path file = {};  // of a folder's
  };
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const;
  std::uint64_t number_at(std::uint64_t offset, int bytes) const;
  void read_directory();
  void read_entry(std::uint64_t at);
  std::vector<std::uint8_t> content(const std::string& name, const Entry& entry) const;

  double unpack_;
  std::vector<std::uint8_t> archive_;
  std::map<std::string, Entry> entries_;
};

}  // namespace nixie
