// UnpackingLimit: how much compressed content of a file may unpack to, so that a small file cannot take all memory.
#pragma once

#include <cstdint>
#include <string>

namespace nixie {

/// How many bytes of content deflate packs into one at most; a file that promises more is damaged.
inline constexpr std::uint64_t kMostDeflated = 1032;

struct UnpackingLimit {
  double bytes = 0;         ///< beyond those that the file stores
  std::string reason = {};  ///< `a quarter of the free memory`
  std::string remedy = {};  ///< what to do with an honest file that needs more

  /// `unpacks to 83 bytes more than the file stores, expected at most 50, REASON; REMEDY`; "" where so many bytes may.
  std::string excess_text(double excess) const;
};

/// `gibibytes` GiB, which the caller's key sets. With 0 a quarter of the memory that is free now, since what is
/// unpacked is copied into another type and order, or 64 MiB where that is more.
UnpackingLimit unpacking_limit(double gibibytes, std::string remedy);

}  // namespace nixie
