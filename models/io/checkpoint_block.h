// The first 512 bytes of a checkpoint: magic, format version, length and checksum, looked at before HDF5 sees the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace nixie {

inline constexpr std::int64_t kBlockBytes = 512;
/// The format this program writes, and the newest it reads.
inline constexpr std::uint32_t kCheckpointFormat = 1;

/// Fills the block at the start of a finished file with the length and XXH3-128 of what follows it.
void write_block(std::span<std::byte> file);

/// Throws Fault::checkpoint, naming the file and the remedy, unless the block and all that follows it are as they were
/// written and of a format up to kCheckpointFormat. With `unchecked` a newer format is all that is refused.
void check_block(const std::filesystem::path& path, bool unchecked);

}  // namespace nixie
