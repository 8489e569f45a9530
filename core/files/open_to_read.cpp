// What is no regular file is found before it is opened.
#include "nixie/core/files/open_to_read.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace nixie {

Fault fault_of_reading(int error, Fault of_kind) {
  const bool is_of_name =
      error == ENOENT || error == ENOTDIR || error == EISDIR || error == ENAMETOOLONG || error == ELOOP;
  return is_of_name ? of_kind : Fault::storage;
}

std::string_view system_remedy(int error) {
  if (error == EMFILE || error == ENFILE) return "close other files, or raise `ulimit -n`";
  const bool is_refused = error == EACCES || error == EPERM;
  const bool is_of_path = is_refused || fault_of_reading(error, Fault::usage) == Fault::usage;
  return is_of_path ? "check the path and its permissions" : "check the disk";
}

void fail_reading(const std::filesystem::path& path, int error, Fault of_kind, std::string_view advice) {
  const bool is_of_name = fault_of_reading(error, Fault::usage) == Fault::usage;
  fail(is_of_name ? of_kind : Fault::storage, path.string(), ": cannot be read: ", std::strerror(error), "; ",
       is_of_name ? advice : system_remedy(error));
}

std::ifstream open_to_read(const std::filesystem::path& path, Fault fault, std::string_view advice) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(fault, path.string(), ": cannot be read: it is not a regular file; ", advice);
  errno = ENOENT;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) fail_reading(path, errno, fault, advice);
  return file;
}

std::string read_text(const std::filesystem::path& path, Fault fault, std::string_view advice) {
  std::ifstream file = open_to_read(path, fault, advice);
  std::string text;
  for (std::array<char, 1 << 16> part; file;) {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) fail_reading(path, errno, fault, advice);
  return text;
}

}  // namespace nixie
