// Tar archives: where in them their files are, by the headers of ustar, pax and GNU tar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nixie {

struct TarFile {
  std::string name = {};
  std::int64_t offset = 0, bytes = 0;  ///< of its content in the archive
};

struct TarContent {
  std::vector<TarFile> files = {};  ///< in the archive's order
  std::int64_t others = 0;          ///< links, devices, sparse files; folders do not count
};

/// Reads every header and none of the contents. Throws Fault::data naming the archive and the byte: a header whose
/// checksum or numbers are wrong, a file that ends beyond the archive, an archive without its end (it was cut off).
TarContent read_tar(const std::filesystem::path& archive);

}  // namespace nixie
