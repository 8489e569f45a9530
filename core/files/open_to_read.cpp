// What is no regular file is found before it is opened.
#include "nixie/core/files/open_to_read.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace nixie {

std::ifstream open_to_read(const std::filesystem::path& path, Fault fault, std::string_view advice) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const bool is_special = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  std::ifstream file;
  errno = ENOENT;
  if (!is_special) file.open(path, std::ios::binary);
  if (!file.is_open())
    fail(fault, path.string(), ": cannot be read: ", is_special ? "it is not a regular file" : std::strerror(errno),
         "; ", advice);
  return file;
}

std::string read_text(const std::filesystem::path& path, Fault fault, std::string_view advice) {
  std::ifstream file = open_to_read(path, fault, advice);
  std::string text;
  for (std::array<char, 1 << 16> part; file;) {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) fail(fault, path.string(), ": cannot be read: ", std::strerror(errno), "; ", advice);
  return text;
}

}  // namespace nixie
