// Philox4x32-10 (Salmon et al., SC'11): the numbers of core/base/random.h, bit for bit.
#pragma once

#include "types.cuh"

__device__ inline uint4 philox(u64 block, u32 step, u64 key) {
  uint4 c = {static_cast<u32>(block), static_cast<u32>(block >> 32), step, 0};
  u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u32 high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    const u32 high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    c = {high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Element 4 * block + word of a stream.
__device__ inline float uniform(u64 block, u32 word, u32 step, u64 stream) {
  const uint4 words = philox(block, step, stream);
  const u32 w = word == 0 ? words.x : word == 1 ? words.y : word == 2 ? words.z : words.w;
  return static_cast<float>(w >> 8) * 0x1p-24f;
}

// The formulas of core/base/box_muller.h; the JIT contracts nothing, so the bits agree.
__device__ inline float box_muller_radius(u32 word) {
  const float u = static_cast<float>(static_cast<int>((word >> 8) + 1)) * 0x1p-24f;
  const u32 shifted = __float_as_uint(u) - 0x3f3504f3u;
  const float e = static_cast<float>(static_cast<int>(shifted) >> 23);
  const float f = __uint_as_float((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  float p = -0x1.fc06e2p-5f;
  p = fmaf(p, f, 0x1.af581ep-4f);
  p = fmaf(p, f, -0x1.b4116ap-4f);
  p = fmaf(p, f, 0x1.c41b8cp-4f);
  p = fmaf(p, f, -0x1.fdfb82p-4f);
  p = fmaf(p, f, 0x1.249688p-3f);
  p = fmaf(p, f, -0x1.555c54p-3f);
  p = fmaf(p, f, 0x1.9999a8p-3f);
  p = fmaf(p, f, -0x1.fffff2p-3f);
  p = fmaf(p, f, 0x1.555556p-2f);
  const float square = f * f;
  float tail = fmaf(square, p * f, e * 0x1.0bfbe8p-15f);
  tail = fmaf(square, -0.5f, tail);
  return sqrtf(-2.0f * fmaf(e, 0x1.62ep-1f, f + tail));
}

__device__ inline float2 box_muller_direction(u32 word) {
  const int k = static_cast<int>(word >> 8);
  const int quarter = (k + (1 << 21)) >> 22;
  const float t = static_cast<float>(k - (quarter << 22)) * 0x1p-24f;
  const float z = t * t;
  float s = 0x1.4cb762p+5f;
  s = fmaf(s, z, -0x1.32ce1ep+6f);
  s = fmaf(s, z, 0x1.466bc2p+6f);
  s = fmaf(s, z, -0x1.4abbcep+5f);
  s = fmaf(s, z, -0x1.777a5cp-23f);
  const float sine = fmaf(s, t, 0x1.921fb6p+2f * t);
  float c = -0x1.a1e852p+4f;
  c = fmaf(c, z, 0x1.e1ec72p+5f);
  c = fmaf(c, z, -0x1.55d3c2p+6f);
  c = fmaf(c, z, 0x1.03c1f0p+6f);
  c = fmaf(c, z, -0x1.3bd3ccp+4f);
  const float cosine = fmaf(c, z, 1.0f);
  const float x = quarter & 1 ? sine : cosine, y = quarter & 1 ? cosine : sine;
  return {(quarter + 1) & 2 ? -x : x, quarter & 2 ? -y : y};
}

__device__ inline float normal(u64 block, u32 word, u32 step, u64 stream) {
  const uint4 words = philox(block, step, stream);
  const float radius = box_muller_radius(word < 2 ? words.x : words.z);
  const float2 direction = box_muller_direction(word < 2 ? words.y : words.w);
  return radius * (word & 1 ? direction.y : direction.x);
}
