// NpyFile: PKZIP's APPNOTE 6.3, with 64 bits for the number of arrays but not for sizes, and numpy/lib/format.py.
#include "nixie/data/files/npy_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>

#include "nixie/core/base/error.h"
#include "nixie/core/files/unpacking.h"
#include "nixie/data/files/folder_scan.h"
#include "nixie/data/files/input_file.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 32) - 1;
constexpr std::uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50, kCentral = 0x02014b50,
                        kLocal = 0x04034b50;
constexpr std::size_t kMostAxes = 64;  // numpy's
constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kCentralBytes = 46, kLocalBytes = 30;

/// The text behind `'key':` in the header, which is a Python dictionary; none where the key is there twice.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos || header.rfind(quoted) != at) return {};
  const std::string_view rest = header.substr(at + key.size() + 3);
  const std::size_t first = rest.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view{} : rest.substr(first);
}

/// The type at the front of a text: in quotes, or a list of fields in brackets; none where it does not end.
std::string_view type_of(std::string_view text) {
  if (!text.starts_with('\'') && !text.starts_with('[')) return {};
  char quote = 0;
  int depth = 0;  // of brackets
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0)
      quote = c == quote ? 0 : quote;
    else if (c == '\'' || c == '"')
      quote = c;
    else
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (quote == 0 && depth == 0) return text.substr(0, i + 1);
  }
  return {};
}

/// '<f4', '|u1', as numpy writes numbers whose first byte is the lowest; the byte order of one byte may be either.
bool is_number_type(std::string_view type) {
  constexpr std::string_view kNumbers[] = {"u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "b1"};
  return type.size() == 5 && type[0] == '\'' && type[4] == '\'' &&
         (type[1] == '<' || (type[1] == '|' && type[3] == '1')) &&
         std::ranges::find(kNumbers, type.substr(2, 2)) != std::end(kNumbers);
}

/// The message about an array of another type, with the type expected in its place.
std::string expected_for(std::string_view type, const std::string& name) {
  if (type.starts_with('[')) return ", which holds records, expected numbers, such as one of their fields";
  const char kind = type.size() > 3 ? type[2] : ' ';
  const char* content = kind == 'O' ? "Python objects" : kind == 'U' || kind == 'S' ? "text" : nullptr;
  if (!content) return ", expected little-endian numbers, as of astype(\"<f4\")";
  return fmt::format(
      ", which holds {}, expected numbers, for classes those of numpy.unique({}, return_inverse=True)[1]", content,
      name);
}

std::optional<std::vector<std::int64_t>> shape_of(std::string_view text) {
  if (!text.starts_with('(')) return {};
  std::vector<std::int64_t> shape;
  for (text.remove_prefix(1); !text.starts_with(')');) {
    const std::size_t digit = text.find_first_not_of(" ,");
    if (digit == std::string_view::npos) return {};
    text.remove_prefix(digit);
    if (text.starts_with(')')) break;
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc{} || size < 0) return {};
    if (shape.size() == kMostAxes) return {};
    shape.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return shape;
}

}  // namespace

bool is_npy_name(const fs::path& file) { return file.extension() == ".npy" && !is_hidden(file); }

NpyFile::NpyFile(fs::path file, double unpack) : ArraySource(std::move(file)), unpack_(unpack) {
  std::error_code error;
  if (!fs::is_directory(path(), error)) {
    archive_ = read_file(path(), kMostBytes);
    read_directory();
    return;
  }
  for (const auto& entry : fs::directory_iterator(path(), error))
    if (is_npy_name(entry.path())) entries_[entry.path().stem().string()] = {.file = entry.path()};
  if (entries_.empty()) fail(Fault::data, path().string(), ": holds no .npy file; name another folder, or a .npz file");
}

void NpyFile::refuse(const std::string& name, const std::string& what) const {
  fail(Fault::data, path().string(), name.empty() ? "" : ": " + name, ": ", what, "; save it again with numpy.savez");
}

std::vector<std::string> NpyFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::uint64_t NpyFile::number_at(std::uint64_t offset, int bytes) const {
  if (offset > archive_.size() || static_cast<std::uint64_t>(bytes) > archive_.size() - offset)
    refuse("", "is cut off");
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | archive_[offset + static_cast<std::uint64_t>(i)];
  return value;
}

void NpyFile::read_directory() {
  // The end record is last but for a comment of at most 64 KiB.
  const std::uint64_t size = archive_.size();
  if (size < kEndBytes) refuse("", "is no .npz archive");
  std::uint64_t end = size - kEndBytes;
  const std::uint64_t first = end > 0xffff ? end - 0xffff : 0;
  while (number_at(end, 4) != kEnd)
    if (end-- == first) refuse("", "is no .npz archive, or is cut off");
  std::uint64_t count = number_at(end + 10, 2), at = number_at(end + 16, 4);
  if (count == 0xffff && end >= kLocatorBytes && number_at(end - kLocatorBytes, 4) == kLocator64) {  // as many or more
    const std::uint64_t record = number_at(end - kLocatorBytes + 8, 8);
    if (number_at(record, 4) != kEnd64) refuse("", "has a damaged directory");
    count = number_at(record + 32, 8);
    at = number_at(record + 48, 8);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (number_at(at, 4) != kCentral) refuse("", "has a damaged directory");
    read_entry(at);
    at += kCentralBytes + number_at(at + 28, 2) + number_at(at + 30, 2) + number_at(at + 32, 2);
  }
  if (number_at(at, 4) == kCentral) refuse("", fmt::format("has more entries than the {} of its directory", count));
  if (entries_.empty()) refuse("", "holds no array");
}

void NpyFile::read_entry(std::uint64_t at) {
  const std::uint64_t method = number_at(at + 10, 2), name_bytes = number_at(at + 28, 2);
  const Entry entry{.offset = number_at(at + 42, 4),
                    .stored = number_at(at + 20, 4),
                    .size = number_at(at + 24, 4),
                    .checksum = static_cast<std::uint32_t>(number_at(at + 16, 4)),
                    .deflated = method == 8};
  if (name_bytes > archive_.size() - (at + kCentralBytes)) refuse("", "is cut off");
  std::string name(reinterpret_cast<const char*>(archive_.data() + at + kCentralBytes), name_bytes);
  if (!name.ends_with(".npy")) return;
  name.resize(name.size() - 4);
  for (char& c : name)
    if (c < ' ' || c > '~') c = '?';  // errors are lines
  if (number_at(at + 8, 2) & 1) refuse(name, "is encrypted");
  if (method != 0 && method != 8) refuse(name, fmt::format("is packed by method {}", method));
  if (entry.stored == 0xffffffff || entry.size == 0xffffffff || entry.offset == 0xffffffff)
    refuse(name, "is larger than 4 GiB");
  if (!entries_.emplace(name, entry).second) refuse(name, "is there twice");
}

std::vector<std::uint8_t> NpyFile::content(const std::string& name, const Entry& entry) const {
  if (!entry.file.empty()) return read_file(entry.file, kMostBytes);
  if (number_at(entry.offset, 4) != kLocal) refuse(name, "is damaged");
  const std::uint64_t name_at = entry.offset + kLocalBytes, name_bytes = number_at(entry.offset + 26, 2),
                      begin = name_at + name_bytes + number_at(entry.offset + 28, 2);
  if (begin > archive_.size() || entry.stored > archive_.size() - begin) refuse(name, "is cut off");
  if (std::string(archive_.begin() + static_cast<std::ptrdiff_t>(name_at),
                  archive_.begin() + static_cast<std::ptrdiff_t>(name_at + name_bytes)) != name + ".npy")
    refuse(name, "has another name in its directory");
  if (entry.size > entry.stored * kMostDeflated || (!entry.deflated && entry.size != entry.stored))
    refuse(name, fmt::format("claims {} bytes out of {}", entry.size, entry.stored));
  const UnpackingLimit limit =
      unpacking_limit(unpack_, "set data.arrays.unpack to the GiB that it needs, or save it with numpy.savez");
  const double excess = static_cast<double>(entry.size) - static_cast<double>(entry.stored);
  if (const std::string text = limit.excess_text(excess); !text.empty())
    fail(Fault::data, path().string(), ": ", name, ": ", text);
  std::vector<std::uint8_t> bytes(entry.size);
  if (!entry.deflated) {
    std::copy_n(archive_.begin() + static_cast<std::ptrdiff_t>(begin), entry.size, bytes.begin());
  } else {
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(Fault::memory, "no memory to unpack ", path().string());
    stream.next_in = const_cast<std::uint8_t*>(archive_.data() + begin);
    stream.avail_in = static_cast<uInt>(entry.stored);
    stream.next_out = bytes.data();
    stream.avail_out = static_cast<uInt>(entry.size);
    const int code = inflate(&stream, Z_FINISH);
    const bool is_whole = code == Z_STREAM_END && stream.avail_out == 0;
    inflateEnd(&stream);
    if (!is_whole) refuse(name, "is damaged");
  }
  if (crc32_z(0, bytes.data(), bytes.size()) != entry.checksum) refuse(name, "is damaged: its checksum differs");
  return bytes;
}

NumberArray NpyFile::array(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) refuse(name, fmt::format("is not there; the arrays are {}", fmt::join(names(), ", ")));
  std::vector<std::uint8_t> bytes = content(name, found->second);
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (bytes.size() < 12 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) refuse(name, "is no array");
  if (bytes[6] < 1 || bytes[6] > 3) refuse(name, fmt::format("is of version {}, expected 1 to 3", bytes[6]));
  const bool is_long = bytes[6] > 1;
  const std::size_t start = is_long ? 12 : 10;
  std::size_t length = bytes[8] | std::size_t{bytes[9]} << 8;
  if (is_long) length |= std::size_t{bytes[10]} << 16 | std::size_t{bytes[11]} << 24;
  if (length > bytes.size() - start) refuse(name, "is cut off in its header");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data() + start), length);
  const std::string_view descr = type_of(value_of(header, "descr"));
  const std::string_view order = value_of(header, "fortran_order");
  const auto shape = shape_of(value_of(header, "shape"));
  const bool is_fortran = order.starts_with("True");
  if (descr.empty() || !shape || (!is_fortran && !order.starts_with("False"))) refuse(name, "has a damaged header");
  if (!is_number_type(descr)) refuse(name, fmt::format("has the type {}{}", descr, expected_for(descr, name)));
  const std::string type(descr.substr(2, 2));
  if (is_fortran) refuse(name, "is in Fortran's order, expected that of numpy.ascontiguousarray");
  // Each size is held against what there is before it takes part in a product.
  const std::uint64_t there = bytes.size() - start - length;
  const bool is_empty = std::ranges::find(*shape, 0) != shape->end();
  std::uint64_t expected = is_empty ? 0 : static_cast<std::uint64_t>(type[1] - '0');
  for (const std::int64_t size : *shape) {
    if (!is_empty && expected > there / static_cast<std::uint64_t>(size)) refuse(name, "is cut off");
    expected *= static_cast<std::uint64_t>(size);
  }
  if (expected != there) refuse(name, fmt::format("has {} bytes of elements, its shape needs {}", there, expected));
  const std::span elements = std::span(bytes).subspan(start + length);
  if (type == "b1" && std::ranges::any_of(elements, [](std::uint8_t byte) { return byte > 1; }))
    refuse(name, "holds a bool other than 0 and 1");
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(start + length));  // no second copy
  return {type, *shape, std::move(bytes)};
}

}  // namespace nixie
