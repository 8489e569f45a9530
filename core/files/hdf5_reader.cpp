// Checks and reads the file.
#include "nixie/core/files/hdf5_reader.h"

#include <hdf5.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "nixie/core/files/open_to_read.h"

namespace nixie::hdf5 {
namespace {

constexpr std::int64_t kMaxObjects = 100'000;
constexpr std::int64_t kMaxTextBytes = 1 << 20;
// Compressed weights may unpack to so many bytes, and so many more for each byte of the file.
constexpr double kFreeBytes = 64 << 20, kMaxExpansion = 20;
constexpr int kMaxRank = 32;
// The most bytes of a row, or of a chunk, of an array that is read in parts.
constexpr double kMaxPart = 256 << 20;

struct Listing {
  std::vector<std::string> names;
  std::int64_t room;  // names that may still come
};

herr_t list_link(hid_t, const char* name, const H5L_info_t*, void* data) {
  auto& listing = *static_cast<Listing*>(data);
  if (--listing.room < 0) return -1;
  listing.names.emplace_back(name);
  return 0;
}

herr_t list_attribute(hid_t, const char* name, const H5A_info_t*, void* data) {
  return list_link(-1, name, nullptr, data);
}

std::string without_padding(const char* text, std::size_t bytes) {
  std::string kept(text, bytes);
  kept.erase(std::ranges::find(kept, '\0'), kept.end());
  return kept;
}

}  // namespace

Reader::Reader(const FilePlace& place, Fault fault, std::string remedy, std::optional<UnpackingLimit> limit)
    : path_(place.path()), fault_(fault), remedy_(std::move(remedy)) {
  FileToRead(place, fault_, "check the path and its permissions");
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  H5Pset_file_locking(access, false, true);  // some file systems have no locks, and a published file does not change
  file_ = Handle(H5Fopen(place.readable().c_str(), H5F_ACC_RDONLY, access), H5Fclose);
  if (!file_) fail_reading("the file");
  struct stat info {};  // of what is open: another file may have taken its name
  if (::fstat(descriptor(), &info) != 0) fail_reading("the file");
  file_bytes_ = info.st_size;
  limit_ = limit ? *std::move(limit)
                 : UnpackingLimit{kFreeBytes + kMaxExpansion * static_cast<double>(file_bytes_),
                                  "20 for each of the file's and 64 MiB", remedy_};
}

int Reader::descriptor() const {
  void* handle = nullptr;
  return H5Fget_vfd_handle(file_, H5P_DEFAULT, &handle) < 0 ? -1 : *static_cast<const int*>(handle);
}

// HDF5 gives zeros for what was behind the end of a file that was cut off meanwhile.
void Reader::check_whole(const std::string& object) const {
  struct stat now {};
  if (::fstat(descriptor(), &now) != 0) fail_reading(object);
  if (now.st_size < file_bytes_)
    refuse(object, fmt::format("is cut off: the file has {} bytes, and had {} before", now.st_size, file_bytes_));
}

bool Reader::reads(int other) const {
  struct stat mine {};
  struct stat its {};
  return ::fstat(descriptor(), &mine) == 0 && ::fstat(other, &its) == 0 && mine.st_dev == its.st_dev &&
         mine.st_ino == its.st_ino;
}

void Reader::refuse(const std::string& object, const std::string& what) const {
  fail(fault_, path_.string(), ": ", object, " ", what, "; ", remedy_);
}

void Reader::fail_reading(const std::string& object) const {
  const auto [cause, error] = last_failure();
  if (error != 0) nixie::fail_reading(path_, error, fault_, remedy_);
  if (cause.find("already open for write") != std::string::npos)
    fail(fault_, path_.string(),
         ": is still open for writing in another program, or was when that ended; close it there, or run h5clear -s on "
         "a copy");
  if (cause.find("version number") != std::string::npos)
    fail(fault_, path_.string(), ": ", object, " is newer than HDF5 ", version(), " reads, or damaged (", cause,
         "); write it with h5py.File(NAME, \"w\", libver=(\"earliest\", \"v110\"))");
  refuse(object, "is damaged" + (cause.empty() ? cause : " (HDF5: " + cause + ")"));
}

bool Reader::has(const std::string& path) {
  if (path == "/") return true;
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    const htri_t exists = H5Lexists(file_, part.c_str(), H5P_DEFAULT);
    if (exists < 0) fail_reading(part);
    if (!exists) return false;
    H5L_info_t info;
    if (H5Lget_info(file_, part.c_str(), &info, H5P_DEFAULT) < 0) fail_reading(part);
    if (info.type != H5L_TYPE_HARD) refuse(part, "is a soft, external or user link, expected the object itself");
    if (end == std::string::npos) return true;
  }
}

bool Reader::is_group(const std::string& path) {
  const Handle object(has(path) ? H5Oopen(file_, path.c_str(), H5P_DEFAULT) : -1, H5Oclose);
  if (!object) fail_reading(path);
  return H5Iget_type(object) == H5I_GROUP;
}

template <class Iterate, class ListOne>
std::vector<std::string> Reader::list(const std::string& path, const Handle& object, Iterate iterate,
                                      ListOne list_one) {
  if (!object) fail_reading(path);
  Listing listing{{}, kMaxObjects - objects_};
  hsize_t position = 0;
  const herr_t status = iterate(object, H5_INDEX_NAME, H5_ITER_INC, &position, list_one, &listing);
  if (listing.room < 0) refuse(path, fmt::format("brings more than {} objects, expected fewer", kMaxObjects));
  if (status < 0) fail_reading(path);
  objects_ += static_cast<std::int64_t>(listing.names.size());
  return std::move(listing.names);
}

std::vector<std::string> Reader::names(const std::string& path) {
  if (const auto listed = listed_.find(path); listed != listed_.end()) return listed->second;
  if (!has(path)) return {};
  const Handle group(H5Gopen2(file_, path.c_str(), H5P_DEFAULT), H5Gclose);
  return listed_[path] = list(path, group, H5Literate, list_link);
}

Reader::Dataset Reader::open(const std::string& path) {
  if (!has(path)) refuse(path, "is missing");
  Dataset dataset;
  dataset.id = Handle(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.id) fail_reading(path);
  dataset.type = Handle(H5Dget_type(dataset.id), H5Tclose);
  const Handle space(H5Dget_space(dataset.id), H5Sclose), creation(H5Dget_create_plist(dataset.id), H5Pclose);
  if (!dataset.type || !space || !creation) fail_reading(path);

  const H5S_class_t space_class = H5Sget_simple_extent_type(space);
  if (space_class != H5S_SCALAR && space_class != H5S_SIMPLE) refuse(path, "has no elements, expected an array");
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || rank > kMaxRank) fail_reading(path);
  hsize_t extent[kMaxRank], limit[kMaxRank];
  if (H5Sget_simple_extent_dims(space, extent, limit) < 0) fail_reading(path);
  if (!std::equal(extent, extent + rank, limit)) refuse(path, "can grow (maxshape), expected an array of fixed size");
  double elements = 1;  // integers overflow; sizes beside one of 0 count, too, as in a Shape
  for (int axis = 0; axis < rank; ++axis) elements *= std::max(1.0, static_cast<double>(extent[axis]));
  if (elements > static_cast<double>(Shape::kMostElements)) refuse(path, "has an impossible size");
  dataset.shape = Shape(std::vector<std::int64_t>(extent, extent + rank));

  if (H5Pget_external_count(creation) != 0) refuse(path, "keeps its elements in other files, expected them inside");
  const H5D_layout_t layout = H5Pget_layout(creation);
  if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED)
    refuse(path, "is a virtual dataset, expected its elements inside");
  if (layout == H5D_CHUNKED) {
    hsize_t chunk[kMaxRank];
    if (H5Pget_chunk(creation, kMaxRank, chunk) != rank) fail_reading(path);
    if (!std::equal(chunk, chunk + rank, extent, std::less_equal<>())) refuse(path, "has chunks larger than itself");
  }
  check_storage(path, dataset, check_filters(path, creation));
  return dataset;
}

bool Reader::check_filters(const std::string& path, Id creation) const {
  const int count = H5Pget_nfilters(creation);
  if (count < 0) fail_reading(path);
  bool is_compressed = false;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config);
    if (filter != H5Z_FILTER_FLETCHER32 && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_DEFLATE)
      refuse(path, fmt::format("uses filter {}, expected fletcher32, shuffle or deflate", filter));
    is_compressed |= filter == H5Z_FILTER_DEFLATE;
  }
  return is_compressed;
}

void Reader::check_storage(const std::string& path, Dataset& dataset, bool is_compressed) {
  // In double: hostile sizes overflow integers.
  double declared = static_cast<double>(H5Tget_size(dataset.type));
  for (const std::int64_t size : dataset.shape) declared *= static_cast<double>(size);
  const auto stored = static_cast<double>(H5Dget_storage_size(dataset.id));
  if (declared > stored && !is_compressed)
    refuse(path, fmt::format("declares {:.0f} bytes of elements, but the file stores {:.0f}", declared, stored));
  dataset.excess = std::max(0.0, declared - stored);
  if (static_cast<double>(stored_bytes_) + stored > static_cast<double>(file_bytes_))
    refuse(path, fmt::format("claims {:.0f} stored bytes, more than are left of the file's {}", stored, file_bytes_));
  stored_bytes_ += static_cast<std::int64_t>(stored);
}

void Reader::take_room(const std::string& path, const Dataset& dataset) {
  if (const std::string excess = limit_.excess_text(dataset.excess); !excess.empty())
    fail(fault_, path_.string(), ": ", path, " ", excess);
  limit_.bytes -= dataset.excess;
}

void Reader::read(const std::string& path, const Dataset& dataset, void* bytes) {
  if (dataset.shape.size() == 0) return;
  if (H5Dread(dataset.id, dataset.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0) fail_reading(path);
}

Dtype Reader::dtype_of(const std::string& path, const Dataset& dataset) const {
  const std::optional<Dtype> dtype = dtype_of_type(dataset.type);
  if (!dtype) refuse(path, fmt::format("has another element type, expected one of {}, little endian", dtype_names()));
  return *dtype;
}

ArrayForm Reader::form(const std::string& path) {
  const std::int64_t before = stored_bytes_;
  const Dataset dataset = open(path);
  stored_bytes_ = before;  // looked at, not read
  return {dtype_of(path, dataset), dataset.shape};
}

void Reader::allow(const ArrayForm& form) {
  limit_.bytes += static_cast<double>(form.shape.size()) * static_cast<double>(size_of(form.dtype));
}

Array Reader::array(const std::string& path) {
  const Dataset dataset = open(path);
  take_room(path, dataset);
  Array array(dtype_of(path, dataset), dataset.shape);
  read(path, dataset, array.bytes());
  if (!array.holds_bools()) refuse(path, "holds a bool other than 0 and 1");
  return array;
}

NumberArray Reader::number_array(const std::string& path) {
  const Dataset dataset = open(path);
  const auto format = number_format(dataset.type);
  if (!format) refuse(path, "has another element type, expected whole numbers or floats");
  take_room(path, dataset);
  NumberArray array{.type = format->name, .shape = {dataset.shape.begin(), dataset.shape.end()}};
  array.bytes.resize(static_cast<std::size_t>(dataset.shape.size()) * array.element_bytes());
  if (!array.bytes.empty() &&
      H5Dread(dataset.id, format->stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.bytes.data()) < 0)
    fail_reading(path);
  check_bools(path, array);
  return array;
}

void Reader::check_bools(const std::string& path, const NumberArray& array) const {
  if (array.type == "b1" && std::ranges::any_of(array.bytes, [](std::uint8_t byte) { return byte > 1; }))
    refuse(path, "holds a bool other than 0 and 1");
}

Reader::Rows Reader::rows(const std::string& path) {
  Rows rows;
  const std::int64_t before = stored_bytes_;
  rows.dataset_ = open(path);
  stored_bytes_ = before;  // they are read again and again
  const Shape& shape = rows.dataset_.shape;
  const auto format = number_format(rows.dataset_.type);
  if (!format) refuse(path, "has another element type, expected whole numbers or floats");
  if (shape.size() == 0 || shape.rank() == 0) refuse(path, "has no rows");
  rows.form_ = {.type = format->name, .shape = {shape.begin(), shape.end()}};
  const auto element = static_cast<double>(rows.form_.element_bytes());
  rows.part_ = element * static_cast<double>(shape.size() / shape[0]);
  const Handle creation(H5Dget_create_plist(rows.dataset_.id), H5Pclose);
  if (H5Pget_layout(creation) == H5D_CHUNKED) {
    hsize_t chunk[kMaxRank];
    const int rank = H5Pget_chunk(creation, kMaxRank, chunk);
    if (rank != static_cast<int>(shape.rank())) fail_reading(path);
    const double bytes = std::accumulate(chunk, chunk + rank, element, std::multiplies<>());
    rows.part_ = std::max(rows.part_, bytes);
    // A chunk is decoded once for all of its rows that are read one after the other.
    const Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
    H5Pset_chunk_cache(access, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, static_cast<std::size_t>(std::min(bytes, kMaxPart)) + 1,
                       H5D_CHUNK_CACHE_W0_DEFAULT);
    rows.dataset_.id = Handle(H5Dopen2(file_, path.c_str(), access), H5Dclose);
    if (!rows.dataset_.id) fail_reading(path);
  }
  rows.reader_ = this;
  rows.path_ = path;
  rows.stored_ = format->stored;
  return rows;
}

NumberArray Reader::Rows::read(std::int64_t first, std::int64_t count) {
  const Quiet quiet;  // of this thread
  if (part_ > kMaxPart)
    reader_->refuse(path_, fmt::format("has rows or chunks of {:.0f} bytes, expected at most {:.0f} in an array that "
                                       "is read in parts",
                                       part_, kMaxPart));
  NumberArray part = form_;
  check(first >= 0 && count >= 0 && first <= part.shape[0] - count, "rows [", first, ", ", first + count, ") of ",
        part.shape[0]);
  part.shape[0] = count;
  part.bytes.resize(static_cast<std::size_t>(Shape(part.shape).size()) * part.element_bytes());
  if (part.bytes.empty()) return part;
  std::vector<hsize_t> start(part.shape.size()), extent(part.shape.begin(), part.shape.end());
  start[0] = static_cast<hsize_t>(first);
  const Handle file(H5Dget_space(dataset_.id), H5Sclose),
      memory(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose);
  if (!file || !memory ||
      H5Sselect_hyperslab(file, H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) < 0 ||
      H5Dread(dataset_.id, stored_, memory, file, H5P_DEFAULT, part.bytes.data()) < 0)
    reader_->fail_reading(path_);
  reader_->check_whole(path_);
  reader_->check_bools(path_, part);
  return part;
}

std::vector<std::string> Reader::strings(const std::string& path) {
  const Dataset dataset = open(path);
  const bool is_text = H5Tget_class(dataset.type) == H5T_STRING && H5Tis_variable_str(dataset.type) == 0;
  if (!is_text || dataset.shape.rank() != 1) refuse(path, "is no list of fixed-length texts");
  const std::size_t length = H5Tget_size(dataset.type);
  const std::int64_t count = dataset.shape[0];
  if (length == 0 || static_cast<std::int64_t>(length) > kMaxTextBytes || count > kMaxObjects)
    refuse(path, fmt::format("holds {} texts of {} bytes, expected at most {} of {}", count, length, kMaxObjects,
                             kMaxTextBytes));
  take_room(path, dataset);
  std::vector<char> bytes(static_cast<std::size_t>(count) * length);
  read(path, dataset, bytes.data());
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < bytes.size(); at += length) texts.push_back(without_padding(bytes.data() + at, length));
  return texts;
}

Value Reader::read_attribute(Id attribute, const std::string& where) const {
  const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  if (!type || !space) fail_reading(where);
  if (H5Sget_simple_extent_type(space) != H5S_SCALAR) refuse(where, "is no single value");
  const auto read_number = [&](auto number) -> Value {
    if (H5Aread(attribute, type, &number) < 0) fail_reading(where);
    return number;
  };
  if (H5Tequal(type, H5T_STD_I64LE) > 0) return read_number(std::int64_t{});
  if (H5Tequal(type, H5T_IEEE_F64LE) > 0) return read_number(double{});
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0)
    refuse(where, "is no 64-bit integer, number or fixed-length text");
  const std::size_t length = H5Tget_size(type);
  if (static_cast<std::int64_t>(length) > kMaxTextBytes)
    refuse(where, fmt::format("is a text of {} bytes, expected at most {}", length, kMaxTextBytes));
  std::string text(length, '\0');
  if (H5Aread(attribute, type, text.data()) < 0) fail_reading(where);
  return without_padding(text.data(), length);
}

std::vector<std::string> Reader::attribute_names(const std::string& path) {
  if (!has(path)) return {};
  return list(path, Handle(H5Oopen(file_, path.c_str(), H5P_DEFAULT), H5Oclose), H5Aiterate2, list_attribute);
}

std::map<std::string, Value> Reader::attributes(const std::string& path, const std::vector<std::string>& lists) {
  std::map<std::string, Value> values;
  for (const std::string& name : attribute_names(path)) {
    if (std::ranges::find(lists, name) != lists.end()) continue;
    const Handle attribute(H5Aopen_by_name(file_, path.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    if (!attribute) fail_reading(path + " @" + name);
    values[name] = read_attribute(attribute, path + " @" + name);
  }
  return values;
}

std::vector<double> Reader::numbers(const std::string& path, const std::string& name) {
  const std::string where = path + " @" + name;
  const htri_t exists = H5Aexists_by_name(file_, path.c_str(), name.c_str(), H5P_DEFAULT);
  if (exists < 0) fail_reading(where);
  if (!exists) return {};
  const Handle attribute(H5Aopen_by_name(file_, path.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute) fail_reading(where);
  const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  if (!type || !space) fail_reading(where);
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  const bool is_list = H5Sget_simple_extent_type(space) == H5S_SIMPLE && H5Sget_simple_extent_ndims(space) == 1;
  const auto format = number_format(type);
  if (!format || format->name == "b1" || !is_list || count < 0 || count > kMaxObjects)
    refuse(where, "is no list of numbers");
  std::vector<double> values(static_cast<std::size_t>(count));
  if (H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()) < 0) fail_reading(where);
  return values;
}

}  // namespace nixie::hdf5
