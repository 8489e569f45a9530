// Reads Linux's /proc; elsewhere free pages are all that is known.
#include "nixie/core/base/free_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#if defined(__linux__)
#include <sys/resource.h>
#endif

namespace nixie {
namespace {

std::int64_t page_bytes() { return static_cast<std::int64_t>(sysconf(_SC_PAGESIZE)); }

/// The memory that the system can give without swapping, caches of files included.
std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, rest; file >> name; std::getline(file, rest))
    if (std::int64_t kib = 0; name == "MemAvailable:" && file >> kib) return kib << 10;
  return static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * page_bytes();
}

}  // namespace

std::int64_t used_address_bytes() {
  std::int64_t pages = 0;
  return std::ifstream("/proc/self/statm") >> pages ? pages * page_bytes() : -1;
}

std::int64_t free_memory_bytes() {
  std::int64_t free = available_bytes();
#if defined(__linux__)
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    if (const std::int64_t used = used_address_bytes(); used >= 0)
      free = std::clamp<std::int64_t>(static_cast<std::int64_t>(limit.rlim_cur) - used, 0, free);
#endif
  return free;
}

}  // namespace nixie
