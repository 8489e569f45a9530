// PackedFile: sizes are compared with the file's before anything is read by them.
#include "nixie/data/files/packed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "nixie/core/base/error.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/files/uninterrupted.h"
#include "nixie/data/normalization.h"

namespace nixie {
namespace {

static_assert(std::endian::native == std::endian::little, "packed files are little-endian");

constexpr std::string_view kMagic = "nixiepak";
constexpr std::uint32_t kVersion = 1;
constexpr std::int64_t kHeaderAt = 16, kMostHeader = 64 << 20, kSampleAlignment = 4096;

std::int64_t aligned(std::int64_t offset, std::int64_t to) { return (offset + to - 1) / to * to; }

template <class T>
void append_number(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

PackedHeader header_of(const nlohmann::json& json) {
  PackedHeader header{.samples = json.at("samples"),
                      .sample_shape = Shape(json.at("sample_shape").get<std::vector<std::int64_t>>()),
                      .block = json.at("block"),
                      .class_names = json.at("class_names"),
                      .mean = json.at("mean"),
                      .deviation = json.at("deviation"),
                      .upright = json.value("upright", false)};
  const auto channels = header.sample_shape.rank() == 3 ? static_cast<std::size_t>(header.sample_shape[0]) : 0;
  check(channels > 0 && header.sample_bytes() > 0 && header.samples > 0 && header.block > 0 &&
            header.block <= header.samples && !header.class_names.empty(),
        "sizes that are no images");
  const auto floats = [](const std::vector<double>& numbers) {
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  check(header.mean.size() == channels && header.deviation.size() == channels,
        "another number of means and deviations than channels");
  Normalization(header.sample_shape[0], floats(header.mean), floats(header.deviation));  // throws where it takes none
  return header;
}

}  // namespace

std::uint64_t packed_checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string packed_front(const PackedHeader& header) {
  const nlohmann::json json = {
      {"samples", header.samples},
      {"sample_shape", std::vector<std::int64_t>(header.sample_shape.begin(), header.sample_shape.end())},
      {"block", header.block},
      {"class_names", header.class_names},
      {"mean", header.mean},
      {"deviation", header.deviation},
      {"upright", header.upright}};
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string front(kMagic);
  append_number(front, kVersion);
  append_number(front, static_cast<std::uint32_t>(text.size()));
  front += text;
  front.resize(static_cast<std::size_t>(aligned(static_cast<std::int64_t>(front.size()), kSampleAlignment)));
  return front;
}

PackedFile::PackedFile(std::filesystem::path path) : path_(std::move(path)) {
  map();
  try {
    first_sample_ = read_front();
    const std::int64_t blocks = header_.blocks();
    is_checked_ = std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(blocks));
  } catch (...) {
    ::munmap(const_cast<std::byte*>(bytes_), static_cast<std::size_t>(size_));
    throw;
  }
}

PackedFile::~PackedFile() { ::munmap(const_cast<std::byte*>(bytes_), static_cast<std::size_t>(size_)); }

void PackedFile::refuse(const std::string& what) const {
  fail(Fault::data, path_.string(), ": ", what, "; pack the data again");
}

void PackedFile::map() {
  // A pipe is refused, not waited for.
  const int file = uninterrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (file < 0) fail_reading(path_, errno, Fault::data, "make it with `trainer data pack`");
  struct stat status {};
  const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  size_ = is_file ? status.st_size : 0;
  void* mapped = size_ > 0 ? ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, file, 0) : nullptr;
  const int error = errno;
  ::close(file);
  if (!is_file) fail(Fault::data, path_.string(), ": is not a regular file; name a folder of packed data");
  if (size_ == 0) refuse("is empty");
  if (mapped == MAP_FAILED) fail_reading(path_, error, Fault::data, "make it with `trainer data pack`");
  bytes_ = static_cast<const std::byte*>(mapped);
}

template <class T>
T PackedFile::number_at(std::int64_t offset) const {
  T value;
  std::memcpy(&value, bytes_ + offset, sizeof(T));
  return value;
}

std::int64_t PackedFile::read_front() {
  if (size_ < kHeaderAt || std::memcmp(bytes_, kMagic.data(), kMagic.size()) != 0) refuse("is no packed file");
  if (const auto version = number_at<std::uint32_t>(8); version != kVersion)
    refuse(fmt::format("is of version {}, this program reads {}", version, kVersion));
  const std::int64_t header_bytes = number_at<std::uint32_t>(12);
  if (header_bytes > std::min(kMostHeader, size_ - kHeaderAt)) refuse("is cut off inside its header");
  try {
    const char* text = reinterpret_cast<const char*>(bytes_ + kHeaderAt);
    header_ = header_of(nlohmann::json::parse(text, text + header_bytes));
  } catch (const nlohmann::json::exception&) {  // its words are for programmers
    refuse("its header is damaged (not the JSON that it should be)");
  } catch (const Error& error) {
    refuse(fmt::format("its header is damaged ({})", error.what()));
  }
  // Each number is compared with the file before it takes part in a product.
  if (header_.samples > size_ / header_.sample_bytes()) refuse(fmt::format("is cut off: {} bytes", size_));
  const std::int64_t samples_at = aligned(kHeaderAt + header_bytes, kSampleAlignment),
                     labels_at = samples_at + header_.samples * header_.sample_bytes();
  checksums_ = labels_at + 4 * header_.samples;
  const std::int64_t expected = checksums_ + 8 * (header_.blocks() + 3);
  if (size_ != expected) refuse(fmt::format("has {} bytes, its header announces {}", size_, expected));
  const auto sum_of = [&](std::int64_t from, std::int64_t to) {
    return packed_checksum({bytes_ + from, static_cast<std::size_t>(to - from)});
  };
  checksum_ = number_at<std::uint64_t>(size_ - 8);
  if (sum_of(checksums_, size_ - 8) != checksum_ || sum_of(0, samples_at) != number_at<std::uint64_t>(checksums_) ||
      sum_of(labels_at, checksums_) != number_at<std::uint64_t>(size_ - 16))
    refuse("its header, labels or checksums are damaged");
  labels_.resize(static_cast<std::size_t>(header_.samples));
  std::memcpy(labels_.data(), bytes_ + labels_at, 4 * labels_.size());
  for (const std::uint32_t label : labels_)
    if (label >= header_.class_names.size())
      refuse(fmt::format("has label {}, but {} classes", label, header_.class_names.size()));
  return samples_at;
}

void PackedFile::check_block(std::int64_t block) const {
  std::atomic<bool>& is_checked = is_checked_[static_cast<std::size_t>(block)];
  if (is_checked.load(std::memory_order_relaxed)) return;  // twice does no harm
  const std::int64_t first = block * header_.block, last = std::min(first + header_.block, header_.samples),
                     at = first_sample_ + first * header_.sample_bytes();
  const std::span bytes(bytes_ + at, static_cast<std::size_t>((last - first) * header_.sample_bytes()));
  if (packed_checksum(bytes) != number_at<std::uint64_t>(checksums_ + 8 * (1 + block)))
    refuse(fmt::format("is damaged between the bytes {} and {} (samples {} to {})", at,
                       at + static_cast<std::int64_t>(bytes.size()), first, last - 1));
  is_checked.store(true, std::memory_order_relaxed);
}

std::span<const std::uint8_t> PackedFile::sample(std::int64_t index) const {
  check_block(index / header_.block);
  const std::int64_t bytes = header_.sample_bytes();
  return {reinterpret_cast<const std::uint8_t*>(bytes_ + first_sample_ + index * bytes),
          static_cast<std::size_t>(bytes)};
}

}  // namespace nixie
