// HDF5 files are read by the reader that guards checkpoints, with its refusals.
#include "nixie/data/files/array_source.h"

#include <mutex>

#include "nixie/core/base/error.h"
#include "nixie/core/files/hdf5_reader.h"
#include "nixie/data/files/npy_file.h"
#include "nixie/data/files/table_file.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

class Hdf5Rows final : public ArrayRows {
 public:
  Hdf5Rows(std::shared_ptr<hdf5::Reader> reader, const std::string& path)
      : reader_(std::move(reader)), rows_(reader_->rows(path)) {}

  const NumberArray& form() const override { return rows_.form(); }
  NumberArray read(std::int64_t first, std::int64_t count) const override {
    const std::lock_guard lock(mutex_);
    return rows_.read(first, count);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<hdf5::Reader> reader_;  // outlives the rows
  mutable hdf5::Reader::Rows rows_;
};

class Hdf5Arrays final : public ArraySource {
 public:
  explicit Hdf5Arrays(const fs::path& path)
      : ArraySource(path), reader_(std::make_shared<hdf5::Reader>(path, Fault::data, "write it again with h5py")) {}

  bool has(const std::string& name) const override { return reader_->has("/" + name); }
  std::string names() const override { return fmt::format("{}", fmt::join(reader_->names("/"), ", ")); }
  NumberArray array(const std::string& name) const override { return reader_->number_array("/" + name); }
  std::shared_ptr<const ArrayRows> rows(const std::string& name) const override {
    return std::make_shared<Hdf5Rows>(reader_, "/" + name);
  }
  std::vector<double> attribute(const std::string& array, const std::string& name) const override {
    return reader_->numbers("/" + array, name);
  }

 private:
  std::shared_ptr<hdf5::Reader> reader_;
};

}  // namespace

ArrayPlaces ArraySource::places(const std::string& name) const {
  return [array = path_.string() + ": " + name](const std::vector<std::int64_t>& index) {
    return fmt::format("{}[{}]", array, fmt::join(index, ", "));
  };
}

bool is_hdf5_name(const fs::path& file) {
  const std::string suffix = file.extension().string();
  return suffix == ".h5" || suffix == ".hdf5" || suffix == ".hdf" || suffix == ".he5";
}

std::unique_ptr<ArraySource> open_arrays(const fs::path& path, int targets, const ArraySource* training) {
  if (is_table_name(path)) return std::make_unique<TableFile>(path, targets, training);
  if (is_hdf5_name(path)) return std::make_unique<Hdf5Arrays>(path);
  return std::make_unique<NpyFile>(path);
}

}  // namespace nixie
