// Counter-based random numbers: Philox4x32-10 streams, a pure function of seed, purpose, step and element.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace nixie {

/// The stream of a purpose ("features.0/dropout"): a 64-bit key mixed from the seed, the layer's path and the purpose.
std::uint64_t random_stream(std::uint64_t seed, std::string_view purpose);

/// Philox4x32-10 (Salmon et al., SC'11). For element e of a Random node at step s the counter is
/// {low 32 bits of e / 4, high 32 bits of e / 4, s, 0}, the key the two halves of the stream, and the word is e % 4.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key);

/// [0, 1): the top 24 bits times 2^-24, exact.
inline float uniform_from(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Two standard normals from two words (Box-Muller), in plain float operations and explicit fma, the same on every
/// backend: u = (word0 >> 8) + 1 scaled to (0, 1], r = sqrt(-2 ln u), angle = 2 pi uniform_from(word1); {r cos, r sin}.
/// Words 0 and 1 of a block give elements 0 and 1, words 2 and 3 give elements 2 and 3.
std::array<float, 2> normals_from(std::uint32_t word0, std::uint32_t word1);

}  // namespace nixie
