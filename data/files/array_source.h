// ArraySource: reads arrays by name from numpy or HDF5 files.
#pragma once

#include <filesystem>
#include <functional>
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

/// Where a row or an element of an array is, for messages: `data.npz: labels[12]`, `data.npz: masks[12, 3, 5]`,
/// `data.csv:13`. The index begins with the row.
using ArrayPlaces = std::function<std::string(const std::vector<std::int64_t>& index)>;

class ArraySource {
 public:
  explicit ArraySource(std::filesystem::path path) : path_(std::move(path)) {}
  virtual ~ArraySource() = default;
  const std::filesystem::path& path() const { return path_; }
  virtual std::vector<std::string> names() const = 0;
  /// Throws Fault::data naming the file and the array if it is damaged or holds no numbers.
  virtual NumberArray array(const std::string& name) const = 0;
  /// The array's rows without reading them all; null if the file can only be read whole.
  virtual std::shared_ptr<const ArrayRows> rows(const std::string& /*name*/) const { return nullptr; }
  /// The places in an array; they outlive the source.
  virtual ArrayPlaces places(const std::string& name) const;
  /// The names of the classes that the targets number; empty if they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// The names of a table's columns; empty if it names none.
  virtual std::vector<std::string> column_names() const { return {}; }
  /// The numbers of an array's attribute; empty if it is absent.
  virtual std::vector<double> attribute(const std::string& /*array*/, const std::string& /*name*/) const { return {}; }

 private:
  std::filesystem::path path_;
};

/// The names of a half's images and targets in a source, "" for what is not there.
struct ArrayPair {
  std::string images = {}, targets = {};
};
/// x_train, train_images, images_training, ... in any case of letters, or images, x or input; and their targets.
ArrayPair training_pair(const ArraySource& source);
/// x_val, val_images, images_test, ...: those of the first word that is there.
ArrayPair evaluation_pair(const ArraySource& source);
/// Whether images to train on may have this name.
bool is_training_images(const std::string& name);

/// Whether the name has an HDF5 suffix: .h5, .hdf5, .hdf or .he5.
bool is_hdf5_name(const std::filesystem::path& file);

/// A .npz or HDF5 file, a folder of .npy files, or a table whose last `targets` columns are targets; of a test half it
/// has the columns and the classes of its training half. Compressed arrays may unpack to `unpack` GiB, with 0 to a
/// quarter of the free memory: each of a .npz file, all together of an HDF5 file. Throws Fault::data.
std::unique_ptr<ArraySource> open_arrays(const std::filesystem::path& path, int targets = 1,
                                         const ArraySource* training = nullptr, double unpack = 0);

}  // namespace nixie
