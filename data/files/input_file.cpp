// InputFile: plain and gzip reading with every length checked before memory is taken.
#include "nixie/data/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

#include "nixie/core/base/error.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/files/uninterrupted.h"

namespace nixie {
namespace {

constexpr const char* kAdvice = "check the path and its permissions";

std::uint64_t size_on_disk(const std::filesystem::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) fail_reading(path, errno, Fault::data, kAdvice);
  if (!S_ISREG(about.st_mode)) fail(Fault::data, path.string(), ": not a regular file");
  return static_cast<std::uint64_t>(about.st_size);
}

}  // namespace

InputFile::InputFile(std::filesystem::path path, UnpackingLimit limit)
    : path_(std::move(path)), limit_(std::move(limit)), stored_bytes_(size_on_disk(path_)) {
  file_ = open_to_read(path_, Fault::data, kAdvice);
  std::array<char, 2> magic{};
  file_.read(magic.data(), 2);
  file_.clear();
  file_.seekg(0);
  if (magic[0] != '\x1f' || magic[1] != '\x8b') return;
  zlib_ = std::make_unique<z_stream>();
  if (inflateInit2(zlib_.get(), 15 + 16) != Z_OK) fail(Fault::memory, "no memory for zlib");
}

InputFile::~InputFile() {
  if (zlib_) inflateEnd(zlib_.get());
}

void InputFile::fail_here(const std::string& message) const {
  fail(Fault::data, path_.string(), " at byte ", offset_, ": ", message);
}

bool InputFile::fill() {
  file_.read(reinterpret_cast<char*>(chunk_.data()), chunk_.size());
  if (file_.bad()) fail_reading(path_, errno, Fault::data, kAdvice);
  zlib_->next_in = chunk_.data();
  zlib_->avail_in = static_cast<uInt>(file_.gcount());
  return zlib_->avail_in > 0;
}

std::size_t InputFile::inflate_some(std::uint8_t* to, std::size_t count) {
  if (ended_) return 0;
  zlib_->next_out = to;
  zlib_->avail_out = static_cast<uInt>(count);
  while (zlib_->avail_out == count) {
    if (zlib_->avail_in == 0 && !fill()) fail_here("the gzip stream is cut off; fetch the file again");
    const int code = inflate(zlib_.get(), Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      if (zlib_->avail_in == 0) fill();
      ended_ = zlib_->avail_in == 0;
      if (ended_) break;
      // A file may hold several members one after the other.
      if (*zlib_->next_in != 0x1f) fail_here("trailing garbage behind the gzip stream; fetch the file again");
      inflateReset(zlib_.get());
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fail_here(fmt::format("damaged gzip stream ({}); fetch the file again", zlib_->msg ? zlib_->msg : "no message"));
    }
  }
  return count - zlib_->avail_out;
}

std::size_t InputFile::read_some(std::uint8_t* to, std::size_t count) {
  if (zlib_) return inflate_some(to, count);
  file_.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(count));
  if (file_.bad()) fail_reading(path_, errno, Fault::data, kAdvice);
  return static_cast<std::size_t>(file_.gcount());
}

std::vector<std::uint8_t> InputFile::read(std::uint64_t count, std::string_view what) {
  const std::uint64_t possible =
      zlib_ ? kMostDeflated * stored_bytes_ : stored_bytes_ - std::min(offset_, stored_bytes_);
  if (count > possible)
    fail_here(fmt::format("{} would take {} bytes, but the file holds {} {}; it is truncated or its header is wrong",
                          what, count, zlib_ ? stored_bytes_ : possible, zlib_ ? "compressed" : "more"));
  if (zlib_)
    if (const double excess = static_cast<double>(count) - static_cast<double>(stored_bytes_); excess > limit_.bytes)
      fail_here(fmt::format("{}: {}", what, limit_.excess_text(excess)));
  std::vector<std::uint8_t> bytes;
  bytes.reserve(count);  // takes address space only; pages follow as they are filled
  while (bytes.size() < count) {
    const std::size_t done = bytes.size(), step = std::min<std::uint64_t>(count - done, 1 << 20);
    bytes.resize(done + step);
    const std::size_t got = read_some(bytes.data() + done, step);
    bytes.resize(done + got);
    offset_ += got;
    if (got == 0) fail_here(fmt::format("ends inside {}: {} of {} bytes; fetch the file again", what, done, count));
  }
  return bytes;
}

std::uint32_t InputFile::read_big_endian(std::string_view what) {
  const auto b = read(4, what);
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

void InputFile::expect_end() {
  std::uint8_t extra;
  if (read_some(&extra, 1)) fail_here("more data than the header announces; fetch the file again");
}

std::vector<std::uint8_t> read_file(const std::filesystem::path& path, std::uint64_t limit) {
  const std::uint64_t bytes = size_on_disk(path);
  if (bytes > limit) fail(Fault::data, path.string(), ": ", bytes, " bytes, at most ", limit, " are read");
  return read_part(path, 0, static_cast<std::int64_t>(bytes));
}

std::vector<std::uint8_t> read_part(const std::filesystem::path& path, std::int64_t offset, std::int64_t bytes) {
  // A stream takes as long as decoding a small picture. A pipe in its place is refused, not waited for.
  const int file = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (file < 0) fail_reading(path, errno, Fault::data, kAdvice);
  if (struct stat about{}; ::fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    ::close(file);
    fail(Fault::data, path.string(), ": is not a regular file; ", kAdvice);
  }
  std::vector<std::uint8_t> content(static_cast<std::size_t>(bytes));
  ssize_t got = 1;
  std::int64_t done = 0;
  while (done < bytes && got > 0) {
    got = uninterrupted(
        [&] { return ::pread(file, content.data() + done, static_cast<std::size_t>(bytes - done), offset + done); });
    if (got > 0) done += got;
  }
  const int error = errno;
  ::close(file);
  if (got < 0) fail_reading(path, error, Fault::data, kAdvice);
  if (done < bytes) fail(Fault::data, path.string(), ": cannot be read: it ends early; ", kAdvice);
  return content;
}

}  // namespace nixie
