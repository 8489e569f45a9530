// HDF5's core driver, its buffer taken over when the file closes.
#include "nixie/core/files/hdf5_writer.h"

#include <hdf5.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace nixie::hdf5 {
namespace {

constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr std::int64_t kSlack = 1 << 20;  // metadata of a usual model

[[noreturn]] void fail_building(const std::string& path) {
  fail(Fault::memory, "checkpoint: ", path, " cannot be built in memory (", last_failure().text, "); free some memory");
}

/// About 1 MiB of whole rows, evened out so that the last chunk is about as full as the others.
std::vector<hsize_t> chunk_of(const std::vector<std::int64_t>& sizes, std::int64_t element_bytes) {
  std::vector<hsize_t> chunk(sizes.begin(), sizes.end());
  std::int64_t row_bytes = element_bytes;
  for (const std::int64_t size : sizes) row_bytes *= size;
  for (std::size_t axis = 0; axis < sizes.size() && row_bytes > kChunkBytes; ++axis) {
    row_bytes /= sizes[axis];
    const std::int64_t most = std::max<std::int64_t>(1, kChunkBytes / row_bytes);
    const std::int64_t chunks = (sizes[axis] + most - 1) / most;
    chunk[axis] = static_cast<hsize_t>((sizes[axis] + chunks - 1) / chunks);
    if (most > 1) break;
  }
  return chunk;
}

}  // namespace

/// The core driver's allocator: `realloc` grows the file, `free` hands it over at close.
struct Writer::Memory {
  void* bytes = nullptr;
  std::size_t size = 0;

  ~Memory() { std::free(bytes); }
  static void* allocate(std::size_t size, H5FD_file_image_op_t, void*) { return std::malloc(size); }
  static void* copy(void* to, const void* from, std::size_t size, H5FD_file_image_op_t, void*) {
    return std::memcpy(to, from, size);
  }
  static void* resize(void* old, std::size_t size, H5FD_file_image_op_t, void* self) {
    void* const bytes = std::realloc(old, size);
    if (bytes) static_cast<Memory*>(self)->size = size;
    return bytes;
  }
  static herr_t release(void* bytes, H5FD_file_image_op_t operation, void* self) {
    if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE)
      static_cast<Memory*>(self)->bytes = bytes;
    else
      std::free(bytes);
    return 0;
  }
  static void* share(void* self) { return self; }
  static herr_t keep(void*) { return 0; }
};

Writer::Writer(std::int64_t user_block, std::int64_t expected_bytes)
    : memory_(std::make_unique<Memory>()), user_block_(user_block) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose), creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5FD_file_image_callbacks_t callbacks{Memory::allocate, Memory::copy, Memory::resize, Memory::release,
                                        Memory::share,    Memory::keep, memory_.get()};
  // Each growth copies everything, so the first one takes it all.
  const bool is_set_up = H5Pset_fapl_core(access, static_cast<std::size_t>(expected_bytes + kSlack), false) >= 0 &&
                         H5Pset_file_image_callbacks(access, &callbacks) >= 0 &&
                         H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0 &&
                         H5Pset_userblock(creation, static_cast<hsize_t>(user_block)) >= 0 &&
                         H5Pset_obj_track_times(creation, false) >= 0;
  // HDF5 looks on disk for a file of this name first, and knows open files by their names.
  static std::atomic<std::uint64_t> count = 0;
  const std::string name = "/dev/null/nixie-checkpoint-" + std::to_string(count++);
  if (is_set_up) file_ = Handle(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose);
  if (!file_) fail_building("/");
}

Writer::~Writer() = default;

void Writer::group(const std::string& path) {
  const Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  if (!Handle(H5Gcreate2(file_, path.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Gclose)) fail_building(path);
}

void Writer::dataset(const std::string& path, Id type, const std::vector<std::int64_t>& sizes, const void* bytes) {
  const std::vector<hsize_t> extent(sizes.begin(), sizes.end());
  const Handle space(
      sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), extent.data(), nullptr),
      H5Sclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  const bool has_chunks = !sizes.empty() && std::ranges::find(sizes, 0) == sizes.end();
  if (has_chunks) {
    const std::vector<hsize_t> chunk = chunk_of(sizes, static_cast<std::int64_t>(H5Tget_size(type)));
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
    H5Pset_fletcher32(creation);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  } else {
    H5Pset_layout(creation, H5D_COMPACT);  // inside the object's header, which has a checksum
  }
  Handle dataset(H5Dcreate2(file_, path.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT), H5Dclose);
  const bool is_empty = !has_chunks && !sizes.empty();
  if (!dataset || (!is_empty && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0) || !dataset.close())
    fail_building(path);
}

void Writer::array(const std::string& path, const Array& array) {
  dataset(path, file_type(array.dtype()), array.shape().sizes(), array.bytes());
}

void Writer::strings(const std::string& path, const std::vector<std::string>& texts) {
  std::size_t longest = 1;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  std::string padded(longest * texts.size(), '\0');
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i].copy(padded.data() + i * longest, longest);
  dataset(path, string_type(longest), {static_cast<std::int64_t>(texts.size())}, padded.data());
}

void Writer::attribute_of(const std::string& path, const std::string& name, Id type, Id space, const void* bytes) {
  Handle attribute(
      H5Acreate_by_name(file_, path.c_str(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  if (!attribute || H5Awrite(attribute, type, bytes) < 0 || !attribute.close()) fail_building(path + " @" + name);
}

void Writer::attribute(const std::string& path, const std::string& name, const Value& value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) attribute_of(path, name, H5T_STD_I64LE, space, integer);
  if (const auto* number = std::get_if<double>(&value)) attribute_of(path, name, H5T_IEEE_F64LE, space, number);
  if (const auto* text = std::get_if<std::string>(&value))
    attribute_of(path, name, string_type(text->size()), space, text->c_str());
}

void Writer::attribute(const std::string& path, const std::string& name, const std::vector<double>& values) {
  const hsize_t count = values.size();
  const Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  attribute_of(path, name, H5T_IEEE_F64LE, space, values.data());
}

Image Writer::finish() {
  if (!file_.close() || !memory_->bytes) fail_building("/");
  // The buffer is larger than the file. The superblock (version 3) says where the file ends, 28 bytes in.
  const char* const superblock = static_cast<const char*>(memory_->bytes) + user_block_;
  std::uint64_t end = 0;
  std::memcpy(&end, superblock + 28, sizeof end);
  const bool is_sound = std::memcmp(superblock, "\211HDF\r\n\032\n\003", 9) == 0 && end <= memory_->size;
  if (!is_sound) fail_building("/");
  Image image;
  image.bytes.reset(static_cast<std::byte*>(std::exchange(memory_->bytes, nullptr)));
  image.size = static_cast<std::int64_t>(end);
  return image;
}

}  // namespace nixie::hdf5
