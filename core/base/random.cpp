// Counter-based random numbers: streams by purpose, Philox blocks, normals.
#include "nixie/core/base/random.h"

#include <Random123/philox.h>

#include "nixie/core/base/box_muller.h"

namespace nixie {

std::uint64_t random_stream(std::uint64_t seed, std::string_view purpose) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, then splitmix64's finaliser spreads neighbouring seeds
  for (char c : purpose) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  const auto mix = [](std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  return mix(hash ^ mix(seed));
}

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  const r123::Philox4x32::ctr_type in{{counter[0], counter[1], counter[2], counter[3]}};
  const r123::Philox4x32::key_type k{{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
  const auto out = r123::Philox4x32()(in, k);
  return {out[0], out[1], out[2], out[3]};
}

std::array<float, 2> normals_from(std::uint32_t word0, std::uint32_t word1) {
  const float radius = box_muller_radius(word0);
  const Direction direction = box_muller_direction(word1);
  return {radius * direction.cosine, radius * direction.sine};
}

}  // namespace nixie
