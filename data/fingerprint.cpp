// Fingerprint: the size goes into the seed, so that where one part ends counts, too.
#include "nixie/data/fingerprint.h"

#include <xxhash.h>

namespace nixie {

void Fingerprint::add(const void* bytes, std::size_t size) {
  value_ = XXH3_64bits_withSeed(bytes, size, value_ + size);
}

}  // namespace nixie
