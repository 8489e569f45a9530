// Opens files that users name; refuses pipes and devices before opening them.
#include "nixie/core/files/open_to_read.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "nixie/core/files/uninterrupted.h"

namespace nixie {

Fault fault_of_reading(int error, Fault of_kind) {
  const bool is_of_name =
      error == ENOENT || error == ENOTDIR || error == EISDIR || error == ENAMETOOLONG || error == ELOOP;
  return is_of_name ? of_kind : error == ENOMEM ? Fault::memory : Fault::storage;
}

std::string_view system_remedy(int error) {
  if (error == EMFILE) return "close other files, or raise `ulimit -n`";
  if (error == ENFILE) return "close other programs, or have the system's limit (sysctl fs.file-max) raised";
  if (error == ENOMEM) return "end other programs, or take a machine with more memory";
  const bool is_refused = error == EACCES || error == EPERM;
  const bool is_of_path = is_refused || fault_of_reading(error, Fault::usage) == Fault::usage;
  return is_of_path ? "check the path and its permissions" : "check the disk";
}

void fail_reading(const std::filesystem::path& path, int error, Fault of_kind, std::string_view advice) {
  const bool is_of_name = fault_of_reading(error, Fault::usage) == Fault::usage;
  fail(fault_of_reading(error, of_kind), path.string(), ": cannot be read: ", std::strerror(error), "; ",
       is_of_name ? advice : system_remedy(error));
}

namespace {

void check_regular(const std::filesystem::path& path, std::filesystem::file_status status, Fault fault,
                   std::string_view advice) {
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(fault, path.string(), ": cannot be read: it is not a regular file; ", advice);
}

}  // namespace

FileToRead::FileToRead(const FilePlace& place, Fault fault, std::string_view advice, Kind kind)
    : path_(place.path()), fault_(fault), advice_(advice) {
  std::error_code ignored;
  if (kind == Kind::regular) check_regular(path_, place.status(ignored), fault, advice);
  file_ = open_file(place, O_RDONLY);
  if (file_ < 0) fail_reading(path_, errno, fault, advice);
}

FileToRead::~FileToRead() { ::close(file_); }

std::size_t FileToRead::read(std::span<char> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = uninterrupted([&] { return ::read(file_, bytes.data() + done, bytes.size() - done); });
    if (got < 0) fail_reading(path_, errno, fault_, advice_);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::string read_text(const FilePlace& place, Fault fault, std::string_view advice) {
  FileToRead file(place, fault, advice);
  std::string text;
  std::array<char, 1 << 16> part;
  while (const std::size_t got = file.read(part)) text.append(part.data(), got);
  return text;
}

std::ifstream open_to_read(const std::filesystem::path& path, Fault fault, std::string_view advice) {
  std::error_code error;
  check_regular(path, std::filesystem::status(path, error), fault, advice);
  errno = ENOENT;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) fail_reading(path, errno, fault, advice);
  return file;
}

}  // namespace nixie
