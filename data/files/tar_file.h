// Tar archives: the offsets of their files, from the headers of ustar, pax and GNU tar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nixie {

inline constexpr std::int64_t kTarBlock = 512;  ///< bytes of a header, which is in front of the content

struct TarFile {
  std::string name = {};               ///< normal: `a/b.jpg` for `./a//b.jpg`
  std::int64_t offset = 0, bytes = 0;  ///< of its content in the archive
  std::uint64_t header = 0;            ///< the fingerprint of its header
};

struct TarContent {
  std::vector<TarFile> files = {};  ///< in the archive's order
  std::int64_t others = 0;          ///< number of links, devices and sparse files; not folders
};

/// Reads every header and no contents. Throws Fault::data naming the archive and the byte: a header with a wrong
/// checksum or number, a file that ends beyond the archive, an archive without its end (truncated), one with anything
/// but zeros behind its end, or with over 1 MiB of them (zeroed). The format cannot tell a shorter zeroed end.
TarContent read_tar(const std::filesystem::path& archive);

}  // namespace nixie
