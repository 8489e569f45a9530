// The Box-Muller formula for normal numbers, one float operation at a time, so every backend gives the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace nixie {

/// sqrt(-2 ln u), u = (word >> 8) + 1 scaled to (0, 1]. No branches, so that loops vectorise.
inline float box_muller_radius(std::uint32_t word) {
  const float u = static_cast<float>(static_cast<std::int32_t>((word >> 8) + 1)) * 0x1p-24f;
  // u = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)): f is exact, so ln u keeps its relative accuracy near u = 1.
  constexpr std::uint32_t kRootHalf = 0x3f3504f3u;
  const std::uint32_t shifted = std::bit_cast<std::uint32_t>(u) - kRootHalf;
  const float e = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float f = std::bit_cast<float>((shifted & 0x7fffffu) + kRootHalf) - 1.0f;
  // ln(1 + f) = f - f^2 / 2 + f^3 P(f); P interpolates at Chebyshev nodes.
  float p = -0x1.fc06e2p-5f;
  p = std::fma(p, f, 0x1.af581ep-4f);
  p = std::fma(p, f, -0x1.b4116ap-4f);
  p = std::fma(p, f, 0x1.c41b8cp-4f);
  p = std::fma(p, f, -0x1.fdfb82p-4f);
  p = std::fma(p, f, 0x1.249688p-3f);
  p = std::fma(p, f, -0x1.555c54p-3f);
  p = std::fma(p, f, 0x1.9999a8p-3f);
  p = std::fma(p, f, -0x1.fffff2p-3f);
  p = std::fma(p, f, 0x1.555556p-2f);
  const float square = f * f;
  float tail = std::fma(square, p * f, e * 0x1.0bfbe8p-15f);  // ln 2 in two parts: e times the high part is exact
  tail = std::fma(square, -0.5f, tail);
  const float log_u = std::fma(e, 0x1.62ep-1f, f + tail);
  return std::sqrt(-2.0f * log_u);
}

struct Direction {
  float cosine, sine;
};

/// Cosine and sine of 2 pi turns, turns = (word >> 8) * 2^-24.
inline Direction box_muller_direction(std::uint32_t word) {
  const std::int32_t k = static_cast<std::int32_t>(word >> 8);
  const std::int32_t quarter = (k + (1 << 21)) >> 22;
  const float t = static_cast<float>(k - (quarter << 22)) * 0x1p-24f;  // exact, in [-1/8, 1/8]
  const float z = t * t;
  float s = 0x1.4cb762p+5f;
  s = std::fma(s, z, -0x1.32ce1ep+6f);
  s = std::fma(s, z, 0x1.466bc2p+6f);
  s = std::fma(s, z, -0x1.4abbcep+5f);
  s = std::fma(s, z, -0x1.777a5cp-23f);  // 2 pi in two parts
  const float sine = std::fma(s, t, 0x1.921fb6p+2f * t);
  float c = -0x1.a1e852p+4f;
  c = std::fma(c, z, 0x1.e1ec72p+5f);
  c = std::fma(c, z, -0x1.55d3c2p+6f);
  c = std::fma(c, z, 0x1.03c1f0p+6f);
  c = std::fma(c, z, -0x1.3bd3ccp+4f);
  const float cosine = std::fma(c, z, 1.0f);
  const bool swap = (quarter & 1) != 0, minus_sine = (quarter & 2) != 0, minus_cosine = ((quarter + 1) & 2) != 0;
  const float x = swap ? sine : cosine, y = swap ? cosine : sine;
  return {minus_cosine ? -x : x, minus_sine ? -y : y};
}

}  // namespace nixie
