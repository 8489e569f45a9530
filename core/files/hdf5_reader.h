// Reads arrays, texts and attributes from an HDF5 file that may be damaged or hostile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/base/array.h"
#include "nixie/core/files/array_form.h"
#include "nixie/core/files/folder.h"
#include "nixie/core/files/hdf5_writer.h"
#include "nixie/core/files/number_array.h"
#include "nixie/core/files/unpacking.h"

namespace nixie::hdf5 {

/// Opens a file read-only and refuses anything that could read other files or exhaust memory: soft, external and user
/// links, external storage, virtual datasets, filters other than fletcher32, shuffle and deflate, sizes that the stored
/// bytes cannot fill, arrays that unpack to more than a limit, more than 100,000 objects, texts above 1 MiB.
/// Every function throws its fault with one line that names the file, the object and the remedy. One thread at a time
/// may use a Reader.
class Reader {
 public:
  /// Without a limit all arrays together may unpack to 64 MiB and 20 bytes for each of the file's: weights pack badly.
  explicit Reader(const FilePlace& place, Fault fault = Fault::checkpoint,
                  std::string remedy = "use another or an older checkpoint", std::optional<UnpackingLimit> limit = {});

  /// Whether the file that it has open is that of a descriptor, whatever has its name by now.
  bool reads(int descriptor) const;
  /// Whether there is an object at an absolute path; a refused link on the way throws.
  bool has(const std::string& path);
  /// Whether the object at an absolute path is a group, not an array.
  bool is_group(const std::string& path);
  /// The names in a group, in order.
  std::vector<std::string> names(const std::string& group);
  /// The type and shape of an array, without reading it.
  ArrayForm form(const std::string& path);
  /// Permits an array of this form to unpack to its size, even if the file holds few bytes for it.
  void allow(const ArrayForm& form);
  Array array(const std::string& path);
  /// An array of integers or floats of 1, 2, 4 or 8 bytes, in either byte order, or of h5py's bools.
  NumberArray number_array(const std::string& path);
  class Rows;
  /// The same array, left open to be read in parts: it may be larger than memory.
  Rows rows(const std::string& path);
  /// A list of fixed-length texts.
  std::vector<std::string> strings(const std::string& path);
  /// The names of all attributes of the object at `path`.
  std::vector<std::string> attribute_names(const std::string& path);
  /// All attributes of the object at `path`, each one integer, number or text, but for those named in `lists`, which
  /// are left out. Refuses any other.
  std::map<std::string, Value> attributes(const std::string& path, const std::vector<std::string>& lists = {});
  /// A list of numbers of any type; empty if there is no such attribute.
  std::vector<double> numbers(const std::string& path, const std::string& attribute);

  /// Throws the fault: `FILE: OBJECT WHAT; REMEDY`.
  [[noreturn]] void refuse(const std::string& object, const std::string& what) const;

 private:
  /// A dataset that passed every check except that of its element type.
  struct Dataset {
    Handle id, type;
    Shape shape;
    double excess = 0;  // bytes of its elements beyond the stored ones
  };
  Dataset open(const std::string& path);
  Dtype dtype_of(const std::string& path, const Dataset& dataset) const;
  void check_storage(const std::string& path, Dataset& dataset, bool is_compressed);
  /// Throws if the file has become shorter since it was opened.
  void check_whole(const std::string& object) const;
  void take_room(const std::string& path, const Dataset& dataset);
  /// Throws if an array of h5py's bools holds anything else.
  void check_bools(const std::string& path, const NumberArray& array) const;
  bool check_filters(const std::string& path, Id creation) const;
  void read(const std::string& path, const Dataset& dataset, void* bytes);
  Value read_attribute(Id attribute, const std::string& where) const;
  /// The names that HDF5's `iterate` gives to `list_one`; each counts as an object.
  template <class Iterate, class ListOne>
  std::vector<std::string> list(const std::string& path, const Handle& object, Iterate iterate, ListOne list_one);
  [[noreturn]] void fail_reading(const std::string& object) const;
  int descriptor() const;

  Quiet quiet_;
  std::filesystem::path path_;
  Fault fault_;
  std::string remedy_;
  std::int64_t file_bytes_ = 0;
  std::int64_t stored_bytes_ = 0;  // of all arrays opened so far; links that repeat one would exceed the file
  std::int64_t objects_ = 0;
  std::map<std::string, std::vector<std::string>> listed_;  // names that count as objects already
  UnpackingLimit limit_;                                    // what compressed elements may still unpack to
  Handle file_;
};

/// An array of numbers, read a few rows at a time; its Reader outlives it.
class Reader::Rows {
 public:
  /// The array's type and shape, without its elements.
  const NumberArray& form() const { return form_; }
  /// The rows [first, first + count) of the first axis. Refuses an array whose rows or chunks are above 256 MiB. One
  /// thread at a time.
  NumberArray read(std::int64_t first, std::int64_t count);

 private:
  friend Reader;
  Reader* reader_ = nullptr;
  std::string path_;
  Dataset dataset_;
  Id stored_ = -1;   // the element type, little endian
  double part_ = 0;  // bytes of a row or a chunk, whichever is larger
  NumberArray form_;
};

}  // namespace nixie::hdf5
