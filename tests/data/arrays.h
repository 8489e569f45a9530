// Helpers for tests of arrays: numpy's and HDF5's files made on the spot.
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

/// An archive of arrays as numpy.savez_compressed writes it. `count`: how many its end says there are, if not all; with
/// 65,535, all of them are in the end of zip64.
inline Bytes npz(const std::vector<std::pair<std::string, Bytes>>& arrays, std::optional<std::uint16_t> count = {}) {
  Bytes archive, directory;
  const auto put = [](Bytes& to, std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
  };
  for (const auto& [name, content] : arrays) {
    const std::string file = name + ".npy";
    const Bytes packed = gzip(content);  // deflate between a header of 10 bytes and an end of 8
    const std::size_t offset = archive.size(), stored = packed.size() - 18;
    for (Bytes* to : {&archive, &directory}) {
      put(*to, to == &archive ? 0x04034b50 : 0x02014b50, 4);
      if (to == &directory) put(*to, 20, 2);
      put(*to, 20, 2), put(*to, 0, 2), put(*to, 8, 2), put(*to, 0, 4);
      put(*to, crc32_z(0, content.data(), content.size()), 4), put(*to, stored, 4), put(*to, content.size(), 4);
      put(*to, file.size(), 2), put(*to, 0, 2);
      if (to == &directory) put(*to, 0, 10), put(*to, offset, 4);
      to->insert(to->end(), file.begin(), file.end());
    }
    archive.insert(archive.end(), packed.begin() + 10, packed.end() - 8);
  }
  const std::size_t begin = archive.size(), end = begin + directory.size();
  archive = std::move(archive) + directory;
  if (count == 0xffff) {
    put(archive, 0x06064b50, 4), put(archive, 44, 8), put(archive, 45, 2), put(archive, 45, 2), put(archive, 0, 8);
    put(archive, arrays.size(), 8), put(archive, arrays.size(), 8), put(archive, directory.size(), 8);
    put(archive, begin, 8), put(archive, 0x07064b50, 4), put(archive, 0, 4), put(archive, end, 8), put(archive, 1, 4);
  }
  const std::uint16_t said = count.value_or(static_cast<std::uint16_t>(arrays.size()));
  put(archive, 0x06054b50, 4), put(archive, 0, 4), put(archive, said, 2), put(archive, said, 2);
  put(archive, directory.size(), 4), put(archive, begin, 4), put(archive, 0, 2);
  return archive;
}

/// The bytes of numbers in memory.
template <class T>
Bytes bytes_of_numbers(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

/// An HDF5 file as h5py writes it, dataset by dataset.
class Hdf5File {
 public:
  explicit Hdf5File(const fs::path& path) : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
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
