// The first 512 bytes of a checkpoint: magic, format version, length and checksum, checked before HDF5 reads the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace nixie {

inline constexpr std::int64_t kBlockBytes = 512;
/// The format this program writes, and the newest it reads.
inline constexpr std::uint32_t kCheckpointFormat = 1;

/// Fills the block at the start of a finished file with the length and XXH3-128 of the rest.
void write_block(std::span<std::byte> file);

/// Throws Fault::checkpoint, naming the file and the remedy, unless the block and the rest are as they were written and
/// the format is at most kCheckpointFormat. With `unchecked` it only refuses a newer format. Gives the file's format, 0
/// where the block is none.
std::uint32_t check_block(const std::filesystem::path& path, bool unchecked);

}  // namespace nixie
