// ArraySource: arrays by name, out of numpy's files or HDF5.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nixie/core/files/number_array.h"

namespace nixie {

/// An array that stays in its file, read a few rows at a time. Any thread may.
class ArrayRows {
 public:
  virtual ~ArrayRows() = default;
  /// The array's type and shape, without its elements.
  virtual const NumberArray& form() const = 0;
  /// The rows [first, first + count) of the first axis. Throws Fault::data naming the file and the array.
  virtual NumberArray read(std::int64_t first, std::int64_t count) const = 0;
};

class ArraySource {
 public:
  virtual ~ArraySource() = default;
  virtual bool has(const std::string& name) const = 0;
  /// `images, labels`
  virtual std::string names() const = 0;
  /// Throws Fault::data naming the file and the array: damaged, or of a type that holds no numbers.
  virtual NumberArray array(const std::string& name) const = 0;
  /// The same without reading it; null where the file can only be read whole.
  virtual std::shared_ptr<const ArrayRows> rows(const std::string& /*name*/) const { return nullptr; }
  /// Numbers that are attached to an array; none where there are none.
  virtual std::vector<double> attribute(const std::string& /*array*/, const std::string& /*name*/) const { return {}; }
};

/// Whether the name ends as an HDF5 file's does: .h5, .hdf5, .hdf or .he5.
bool is_hdf5_name(const std::filesystem::path& file);

/// A .npz or HDF5 file, or a folder of .npy files. Throws Fault::data.
std::unique_ptr<ArraySource> open_arrays(const std::filesystem::path& path);

}  // namespace nixie
