// The memory that this process may still take.
#pragma once

#include <cstdint>

namespace nixie {

/// Bytes of the machine's memory that are free, caches of files included, within the limit that the process was given
/// (ulimit -v).
std::int64_t free_memory_bytes();

/// Addresses that this process has taken, in bytes; -1 where the system does not say.
std::int64_t used_address_bytes();

}  // namespace nixie
