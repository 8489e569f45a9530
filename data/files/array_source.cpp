// HDF5 files are read by the reader that guards checkpoints, with its refusals.
#include "nixie/data/files/array_source.h"

#include <algorithm>

#include "nixie/core/base/error.h"
#include "nixie/core/files/hdf5_reader.h"
#include "nixie/data/files/npy_file.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

class Hdf5Arrays final : public ArraySource {
 public:
  explicit Hdf5Arrays(const fs::path& path) : reader_(path, Fault::data, "write it again with h5py") {}

  bool has(const std::string& name) const override { return reader_.has("/" + name); }
  std::string names() const override { return fmt::format("{}", fmt::join(reader_.names("/"), ", ")); }
  NumberArray array(const std::string& name) const override { return reader_.number_array("/" + name); }
  std::vector<double> attribute(const std::string& array, const std::string& name) const override {
    return reader_.numbers("/" + array, name);
  }

 private:
  mutable hdf5::Reader reader_;  // counts what it has read
};

}  // namespace

bool is_hdf5_name(const fs::path& file) {
  const std::string suffix = file.extension().string();
  return suffix == ".h5" || suffix == ".hdf5" || suffix == ".hdf" || suffix == ".he5";
}

std::unique_ptr<ArraySource> open_arrays(const fs::path& path) {
  if (is_hdf5_name(path)) return std::make_unique<Hdf5Arrays>(path);
  return std::make_unique<NpyFile>(path);
}

}  // namespace nixie
