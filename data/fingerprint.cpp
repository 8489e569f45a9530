// Fingerprint: the size goes into the seed, so that where one part ends counts, too.
#include "nixie/data/fingerprint.h"

#include <xxhash.h>

#include "nixie/core/base/error.h"

namespace nixie {

void Fingerprint::add(const void* bytes, std::size_t size) {
  value_ = XXH3_64bits_withSeed(bytes, size, value_ + size);
}

void fail_changed(const std::string& file) {
  fail(Fault::data, file, " has changed since it was read first; put the old file back and resume, or begin a new run");
}

bool FirstRead::holds(std::int64_t sample, std::span<const std::byte> bytes) const {
  const std::uint64_t print = fingerprint_of(bytes);
  std::uint64_t first = 0;
  return prints_[static_cast<std::size_t>(sample)].compare_exchange_strong(first, print) || first == print;
}

}  // namespace nixie
