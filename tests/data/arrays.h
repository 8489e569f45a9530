// What the tests of arrays share: numpy's and HDF5's files made on the spot.
#pragma once

#include <hdf5.h>

#include "nixie/tests/data/support.h"

namespace nixie::test {

/// A .npy file: format version 1, the header padded to 64 bytes.
inline Bytes npy(const std::string& descr, const std::string& shape, const Bytes& elements,
                 const char* fortran = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header += '\n';
  return Bytes{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0} + Bytes(header.begin(), header.end()) + elements;
}

/// The bytes of numbers, as they lie in memory.
template <class T>
Bytes bytes_of_numbers(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

/// An HDF5 file as h5py writes it, dataset by dataset.
class Hdf5File {
 public:
  explicit Hdf5File(const std::filesystem::path& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    EXPECT_GE(file_, 0) << path;
  }
  ~Hdf5File() { H5Fclose(file_); }
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  /// `values` are of the native type, stored as `type`; where there is a `chunk`, deflated in such pieces.
  template <class T>
  void dataset(const char* name, hid_t type, hid_t native, const std::vector<hsize_t>& shape,
               const std::vector<T>& values, const std::vector<hsize_t>& chunk = {}) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    if (!chunk.empty()) {
      H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
      H5Pset_deflate(creation, 4);
    }
    const hid_t data = H5Dcreate2(file_, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(data, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
    H5Dclose(data);
    H5Pclose(creation);
    H5Sclose(space);
  }
  void attribute(const char* dataset, const char* name, const std::vector<std::int64_t>& values) {
    const hid_t data = H5Dopen2(file_, dataset, H5P_DEFAULT);
    const hsize_t count = values.size();
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t made = H5Acreate2(data, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Awrite(made, H5T_NATIVE_INT64, values.data()), 0);
    H5Aclose(made);
    H5Sclose(space);
    H5Dclose(data);
  }

 private:
  hid_t file_;
};

}  // namespace nixie::test
