// The small part of HDF5 that checkpoints and data need: owned handles, quiet errors, and the file types of our dtypes.
// This header does not include hdf5.h, so that users of nixie need no HDF5 headers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "nixie/core/base/dtype.h"

namespace nixie::hdf5 {

/// HDF5's hid_t.
using Id = std::int64_t;

/// Owns an HDF5 object.
class Handle {
 public:
  using Close = int (*)(Id);
  Handle() = default;
  /// Takes an id from HDF5; negative ids are failures and convert to false.
  Handle(Id id, Close close) : id_(id), close_(close) {}
  ~Handle() { close(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  /// Closes now; false if HDF5 reports a failure.
  bool close() { return id_ < 0 || close_(std::exchange(id_, -1)) >= 0; }
  explicit operator bool() const { return id_ >= 0; }
  operator Id() const { return id_; }

 private:
  Id id_ = -1;
  Close close_ = nullptr;
};

/// While it exists, HDF5 prints no errors and loads no plugins. It also disables HDF5's cleanup at exit for good, so
/// close your own files.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  int (*function_)(Id, void*) = nullptr;
  void* data_ = nullptr;
};

/// The version of the linked HDF5 library: `1.10.8`.
std::string version();
/// The innermost message of HDF5's last failure, "" if there is none, and the errno of the failed call, else 0.
struct Failure {
  std::string text;
  int error = 0;
};
Failure last_failure();

/// The type of an array's elements in the file, little endian. f16 is IEEE half (numpy reads float16); bf16 is a float
/// type of 8 exponent and 7 fraction bits (numpy reads float32), f8e4m3 and f8e5m2 are floats of one byte with 3 and 2
/// fraction bits, whose codes beyond the largest number HDF5 itself takes as IEEE 754 would.
Handle file_type(Dtype dtype);
/// The dtype whose file type this is, or nothing.
std::optional<Dtype> dtype_of_type(Id type);
/// numpy's name of a type of numbers, and the same type in little-endian order.
struct NumberFormat {
  std::string name;
  Id stored;
};
/// The format of a standard type of either byte order, of f16, or of h5py's bools; nothing for any other.
std::optional<NumberFormat> number_format(Id type);
/// A UTF-8 string type of fixed length. HDF5 stores variable lengths in a heap without a checksum.
Handle string_type(std::size_t bytes);

}  // namespace nixie::hdf5
