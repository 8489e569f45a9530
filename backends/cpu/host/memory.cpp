// Host memory of the CPU backend.
#include "nixie/backends/cpu/host/memory.h"

#include <cstdlib>

#include <unistd.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace nixie::cpu {
namespace {

// More than this never fits, though the system may promise it.
std::int64_t machine_bytes() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

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
  if (!data_) fail(Fault::memory, "cpu: ", size_bytes, " bytes do not fit the memory, try a smaller batch or model");
}

HostBuffer::~HostBuffer() { std::free(data_); }

}  // namespace nixie::cpu
