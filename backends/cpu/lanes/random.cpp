// Philox4x32-10 on many counters at once.
#include "nixie/backends/cpu/lanes/random.h"

#include <algorithm>

#include "nixie/core/base/box_muller.h"
#include "nixie/core/base/random.h"

namespace nixie::cpu {
namespace {

constexpr int kBlocks = 64;  // blocks of four words made at a time

struct Words {
  alignas(64) std::uint32_t word[4][kBlocks];  // word[j][i] is word j of block i
};

// Blocks block, block + 1, ...: the ten rounds of core's philox, each on all counters.
void philox_blocks(std::uint64_t stream, std::uint32_t step, std::uint64_t block, Words& words) {
  auto& w = words.word;
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t number = block + static_cast<std::uint64_t>(i);
    w[0][i] = static_cast<std::uint32_t>(number);
    w[1][i] = static_cast<std::uint32_t>(number >> 32);
    w[2][i] = step;
    w[3][i] = 0;
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(stream), key1 = static_cast<std::uint32_t>(stream >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9u, key1 += 0xbb67ae85u)
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t a = std::uint64_t{0xd2511f53u} * w[0][i], b = std::uint64_t{0xcd9e8d57u} * w[2][i];
      const std::uint32_t x = static_cast<std::uint32_t>(b >> 32) ^ w[1][i] ^ key0;
      const std::uint32_t y = static_cast<std::uint32_t>(a >> 32) ^ w[3][i] ^ key1;
      w[0][i] = x;
      w[1][i] = static_cast<std::uint32_t>(b);
      w[2][i] = y;
      w[3][i] = static_cast<std::uint32_t>(a);
    }
}

void uniforms(const Words& words, float* __restrict out) {
  for (int i = 0; i < kBlocks; ++i)
    for (int j = 0; j < 4; ++j)
      out[4 * i + j] = static_cast<float>(static_cast<std::int32_t>(words.word[j][i] >> 8)) * 0x1p-24f;
}

void normals(const Words& words, float* __restrict out) {
  for (int half = 0; half < 4; half += 2) {
    float radius[kBlocks], x[kBlocks], y[kBlocks];
    for (int i = 0; i < kBlocks; ++i) radius[i] = box_muller_radius(words.word[half][i]);
    for (int i = 0; i < kBlocks; ++i) {
      const Direction direction = box_muller_direction(words.word[half + 1][i]);
      x[i] = radius[i] * direction.cosine;
      y[i] = radius[i] * direction.sine;
    }
    for (int i = 0; i < kBlocks; ++i) {
      out[4 * i + half] = x[i];
      out[4 * i + half + 1] = y[i];
    }
  }
}

}  // namespace

void random_lanes(bool normal, std::uint64_t stream, std::uint32_t step, std::int64_t first, std::int64_t count,
                  float* out) {
  Words words;
  float values[4 * kBlocks];
  while (count > 0) {
    philox_blocks(stream, step, static_cast<std::uint64_t>(first / 4), words);
    const std::int64_t skip = first % 4, taken = std::min<std::int64_t>(count, 4 * kBlocks - skip);
    const bool all = taken == 4 * kBlocks;
    normal ? normals(words, all ? out : values) : uniforms(words, all ? out : values);
    if (!all) std::copy_n(values + skip, taken, out);
    first += taken;
    count -= taken;
    out += taken;
  }
}

}  // namespace nixie::cpu
