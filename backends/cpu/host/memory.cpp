// Host memory of the CPU backend.
#include "nixie/backends/cpu/host/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#endif

#include "nixie/core/base/array.h"

namespace nixie::cpu {

std::int64_t free_bytes() {
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  std::int64_t free = static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * page;
#if defined(__linux__)
  rlimit limit{};
  std::int64_t used = 0;
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      std::ifstream("/proc/self/statm") >> used)
    free = std::clamp<std::int64_t>(static_cast<std::int64_t>(limit.rlim_cur) - used * page, 0, free);
#endif
  return free;
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
