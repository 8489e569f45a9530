// Host memory of the CPU backend.
#include "nixie/backends/cpu/host/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#endif

#include "nixie/core/base/array.h"

namespace nixie::cpu {

namespace {

std::int64_t page_bytes() { return static_cast<std::int64_t>(sysconf(_SC_PAGESIZE)); }

/// What the system can give without swapping, caches of files included.
std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, rest; file >> name; std::getline(file, rest))
    if (std::int64_t kib = 0; name == "MemAvailable:" && file >> kib) return kib << 10;
  return static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * page_bytes();
}

#if defined(__linux__)
/// Addresses that this process has taken; -1 where the system does not say.
std::int64_t used_addresses() {
  std::int64_t pages = 0;
  return std::ifstream("/proc/self/statm") >> pages ? pages * page_bytes() : -1;
}
#endif

}  // namespace

std::int64_t free_bytes() {
  std::int64_t free = available_bytes();
#if defined(__linux__)
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    if (const std::int64_t used = used_addresses(); used >= 0)
      free = std::clamp<std::int64_t>(static_cast<std::int64_t>(limit.rlim_cur) - used, 0, free);
#endif
  return free;
}

void limit_to_free_bytes(std::int64_t spare) {
#if defined(__linux__)
  rlimit limit{};
  const std::int64_t used = used_addresses();
  if (used < 0 || ::getrlimit(RLIMIT_AS, &limit) != 0) return;
  limit.rlim_cur =
      static_cast<rlim_t>(used + std::max<std::int64_t>(0, free_bytes() - spare));  // never above the limit that it had
  ::setrlimit(RLIMIT_AS, &limit);
#endif
}

HostBuffer::HostBuffer(std::int64_t size_bytes) : Buffer(size_bytes) {
  constexpr std::int64_t kHugePage = 2 << 20, kCacheLine = 64;
  const std::int64_t alignment = size_bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
  if (size_bytes >= 0 && size_bytes <= machine_bytes()) {
    const std::int64_t whole = (size_bytes / alignment + 1) * alignment;
    data_ = static_cast<std::byte*>(
        std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(whole)));
#if defined(__linux__)
    if (data_ && alignment == kHugePage) madvise(data_, static_cast<std::size_t>(whole), MADV_HUGEPAGE);
#endif
  }
  if (!data_) fail(Fault::memory, "cpu: ", size_bytes, " bytes do not fit the memory");
}

HostBuffer::~HostBuffer() { std::free(data_); }

}  // namespace nixie::cpu
