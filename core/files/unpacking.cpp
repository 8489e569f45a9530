// The memory is asked for each time, so that what earlier files took is known.
#include "nixie/core/files/unpacking.h"

#include <fmt/format.h>

#include <algorithm>

#include "nixie/core/base/free_memory.h"

namespace nixie {

std::string UnpackingLimit::excess_text(double excess) const {
  if (excess <= bytes) return {};
  return fmt::format("unpacks to {:.0f} bytes more than the file stores, expected at most {:.0f}, {}; {}", excess,
                     bytes, reason, remedy);
}

UnpackingLimit unpacking_limit(double gibibytes, std::string remedy) {
  constexpr double kGibibyte = 1 << 30, kAlways = 64 << 20;
  if (gibibytes > 0) return {gibibytes * kGibibyte, "the limit that was set", std::move(remedy)};
  const double quarter = static_cast<double>(free_memory_bytes()) / 4;
  return {std::max(quarter, kAlways), "a quarter of the free memory", std::move(remedy)};
}

}  // namespace nixie
