// Host memory of the CPU backend.
#include "nixie/backends/cpu/host/memory.h"

#include <algorithm>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#endif

#include "nixie/core/base/array.h"
#include "nixie/core/base/free_memory.h"

namespace nixie::cpu {

void limit_to_free_bytes(std::int64_t spare) {
#if defined(__linux__)
  rlimit limit{};
  const std::int64_t used = used_address_bytes();
  if (used < 0 || ::getrlimit(RLIMIT_AS, &limit) != 0) return;
  limit.rlim_cur = static_cast<rlim_t>(
      used + std::max<std::int64_t>(0, free_memory_bytes() - spare));  // never above the limit that it had
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
