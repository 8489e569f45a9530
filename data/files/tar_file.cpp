// POSIX 1003.1-2017, pax; and GNU tar's long names and numbers in base 256.
#include "nixie/data/files/tar_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "nixie/core/base/error.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/files/uninterrupted.h"
#include "nixie/data/fingerprint.h"

namespace nixie {
namespace {

constexpr std::int64_t kBlock = kTarBlock, kMostName = 1 << 20;
constexpr std::int64_t kMostEnd = (1 << 20) + 2 * kBlock;  // two empty blocks, padded to tar's largest usual record

/// A header's field: where it begins, and its bytes.
struct Field {
  std::size_t at, bytes;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 5}, kPrefix{345, 155};
constexpr std::size_t kKind = 156;

using Block = std::array<char, kBlock>;

std::string_view field(const Block& block, Field field) { return {block.data() + field.at, field.bytes}; }

std::string_view text_of(const Block& block, Field where) {
  const std::string_view text = field(block, where);
  return text.substr(0, text.find('\0'));
}

/// Octal digits between spaces; or, where the highest bit is set, the bytes of a large number.
std::optional<std::int64_t> number_of(std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  std::int64_t number = 0;
  if (text[0] & '\x80') {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (number > kMost / 256) return {};
      number = number * 256 + static_cast<unsigned char>(i == 0 ? text[i] & '\x7f' : text[i]);
    }
    return number;
  }
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find_first_of(std::string_view(" \0", 2)));
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return {};
    number = number * 8 + (digit - '0');
  }
  return number;
}

/// The sum of all bytes with spaces for the checksum itself; some programs of old summed them with their signs.
bool has_checksum(const Block& block) {
  std::int64_t sum = 0, signed_sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool is_checksum = i >= kChecksum.at && i < kChecksum.at + kChecksum.bytes;
    sum += is_checksum ? ' ' : static_cast<unsigned char>(block[i]);
    signed_sum += is_checksum ? ' ' : static_cast<signed char>(block[i]);
  }
  const std::optional<std::int64_t> stored = number_of(field(block, kChecksum));
  return stored == sum || stored == signed_sum;
}

bool is_empty(const Block& block) { return block == Block{}; }

/// The facts about a file in the headers in front of its own.
struct Records {
  std::string name = {};  // empty: as in its own header
  std::optional<std::int64_t> size = {};
  bool is_sparse = false;  // its content begins with a list of the parts that are not zero
};

class Archive {
 public:
  explicit Archive(const std::filesystem::path& path)
      : path_(path),
        // a pipe is refused, not waited for
        file_(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); })) {
    struct stat about {};
    if (file_ < 0 || ::fstat(file_, &about) != 0) fail_reading(errno);
    if (!S_ISREG(about.st_mode)) refuse(0, "is no file");
    bytes_ = about.st_size;
    ::posix_fadvise(file_, 0, 0, POSIX_FADV_RANDOM);  // headers are far apart: the contents between them are not read
  }
  ~Archive() { ::close(file_); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  TarContent read() {
    TarContent content;
    Records records;
    bool awaits_file = false;  // of which the header before tells more
    for (std::int64_t at = 0;;) {
      const Block header = block(at);
      if (is_empty(header)) {
        if (awaits_file)
          refuse(at, "is empty where a file should follow its long name or other records; fetch it again");
        check_end(at, !content.files.empty());
        return content;
      }
      if (!has_checksum(header))
        refuse(at, at == 0 ? "is no tar archive; unpack it where it is compressed, as pictures are already"
                           : "has a damaged header; fetch it again");
      const char kind = header[kKind];
      const bool is_file = kind == '0' || kind == '\0' || kind == '7';
      const std::optional<std::int64_t> stored = number_of(field(header, kSize));
      if (!stored) refuse(at, "has a header with a damaged size; fetch it again");
      const std::int64_t content_at = content_of(at, header),
                         bytes = is_file ? records.size.value_or(*stored) : *stored;
      if (bytes > bytes_ - content_at)
        refuse(at, fmt::format("is cut off: {} would have {} bytes; fetch it again", one_line(text_of(header, kName)),
                               bytes));
      if (kind != 'g') awaits_file = kind == 'L' || kind == 'x' || kind == 'K';
      if (kind == 'L') {
        records.name = text(content_at, bytes);
        records.name = records.name.substr(0, records.name.find('\0'));
      } else if (kind == 'x') {
        read_pax(content_at, bytes, records);
      } else if (kind != 'g' && kind != 'K') {  // defaults for all files, which name none; the target of a link
        const std::filesystem::path name = records.name.empty() ? name_of(header) : records.name;
        if (records.is_sparse || (kind != '5' && !is_file))
          ++content.others;
        else if (is_file && name.has_filename())
          content.files.push_back(
              {name.lexically_normal().string(), content_at, bytes, fingerprint_of(std::as_bytes(std::span(header)))});
        records = {};
      }
      at = content_at + (bytes + kBlock - 1) / kBlock * kBlock;
    }
  }

 private:
  [[noreturn]] void refuse(std::int64_t at, const std::string& what) const {
    fail(Fault::data, path_.string(), " at byte ", at, ": ", what);
  }
  [[noreturn]] void fail_reading(int error) const {
    nixie::fail_reading(path_, error, Fault::data, "check the path and its permissions");
  }

  void read_bytes(std::int64_t at, char* to, std::int64_t count) const {
    for (std::int64_t done = 0; done < count;) {
      const ssize_t got =
          uninterrupted([&] { return ::pread(file_, to + done, static_cast<std::size_t>(count - done), at + done); });
      if (got < 0) fail_reading(errno);
      if (got == 0) refuse(at, "ends without the empty block that archives end with: it is cut off; fetch it again");
      done += got;
    }
  }

  /// Checks that zeros follow the first empty block, and no more than programs pad with: else contents were
  /// overwritten, or another archive follows. `has_files`: the archive is of use without its end.
  void check_end(std::int64_t end, bool has_files) const {
    std::array<char, 1 << 16> bytes;
    for (std::int64_t at = end; at < bytes_;) {
      const std::int64_t count = std::min(static_cast<std::int64_t>(bytes.size()), bytes_ - at);
      read_bytes(at, bytes.data(), count);
      const auto last = bytes.begin() + count, found = std::find_if(bytes.begin(), last, [](char c) { return c != 0; });
      at += found - bytes.begin();
      if (found != last)
        refuse(at, fmt::format("goes on behind its end, the empty block at byte {}: a part is zeroed, or archives were "
                               "joined by cat; fetch it again, or keep each archive in a file of its own",
                               end));
    }
    if (bytes_ - end > kMostEnd)
      refuse(end, fmt::format(
                      "ends in {} zero bytes, more than programs of tar pad with: its end is zeroed; fetch it "
                      "again{}",
                      bytes_ - end,
                      has_files ? fmt::format(", or cut the zeros off with `truncate -s {}`", end + 2 * kBlock) : ""));
  }

  Block block(std::int64_t at) const {
    Block block;
    read_bytes(at, block.data(), kBlock);
    return block;
  }

  std::string text(std::int64_t at, std::int64_t bytes) const {
    if (bytes > kMostName) refuse(at, fmt::format("has a name of {} bytes", bytes));
    std::string text(static_cast<std::size_t>(bytes), '\0');
    read_bytes(at, text.data(), bytes);
    return text;
  }

  /// Where the content of a header begins: behind the blocks that list further parts of a sparse file of GNU tar.
  std::int64_t content_of(std::int64_t at, const Block& header) const {
    constexpr std::size_t kGoesOn = 482, kGoesOnFurther = 504;
    at += kBlock;
    for (bool goes_on = header[kKind] == 'S' && header[kGoesOn] != 0; goes_on; at += kBlock)
      goes_on = block(at)[kGoesOnFurther] != 0;
    return at;
  }

  static std::string name_of(const Block& header) {
    const std::string name(text_of(header, kName)), prefix(text_of(header, kPrefix));
    const bool is_posix = field(header, kMagic) == "ustar" && header[kMagic.at + kMagic.bytes] == '\0';
    return is_posix && !prefix.empty() ? prefix + "/" + name : name;  // GNU tar has other things in its place
  }

  /// Records `BYTES key=value`, each with a line's end.
  void read_pax(std::int64_t at, std::int64_t bytes, Records& records) const {
    const std::string all = text(at, bytes);
    for (std::string_view rest = all; !rest.empty() && rest[0] != '\0';) {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
      const auto digits = static_cast<std::size_t>(end - rest.data());
      if (error != std::errc{} || length > rest.size() || length < digits + 2 || rest[digits] != ' ' ||
          rest[length - 1] != '\n')
        refuse(at, "has a damaged pax record; fetch it again");
      const std::string_view record = rest.substr(digits + 1, length - digits - 2);
      rest.remove_prefix(length);
      const std::size_t equals = std::min(record.find('='), record.size());
      const std::string_view key = record.substr(0, equals), value = record.substr(std::min(equals + 1, record.size()));
      if (key == "path") records.name = value;
      records.is_sparse |= key.starts_with("GNU.sparse.");
      if (key != "size") continue;
      std::int64_t number = 0;
      const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (wrong != std::errc{} || last != value.data() + value.size() || number < 0)
        refuse(at, "has a damaged pax record; fetch it again");
      records.size = number;
    }
  }

  std::filesystem::path path_;
  int file_;
  std::int64_t bytes_ = 0;
};

}  // namespace

TarContent read_tar(const std::filesystem::path& archive) { return Archive(archive).read(); }

}  // namespace nixie
