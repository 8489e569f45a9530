// Conversions between neighbouring elements and lanes, as vector code.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "nixie/backends/cpu/stages/access.h"

namespace nixie::cpu {
namespace {

// core's convert<> without its branches.
template <class To, class From>
To convert_lane(From x) {
  if constexpr (std::is_same_v<To, Bfloat16>) {
    const std::uint32_t f = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = (f + 0x7fffu + ((f >> 16) & 1u)) >> 16, quiet = (f >> 16) | 0x40u;
    Bfloat16 result;
    result.bits = static_cast<std::uint16_t>((f & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    return result;
  } else if constexpr (kIsNarrow<To>) {
    return To(x);
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{};
  } else if constexpr (kIsNarrow<From> || sizeof(To) > sizeof(From)) {
    return static_cast<To>(x);
  } else {
    constexpr From kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
    const From low = x < kLow ? kLow : x;
    return static_cast<To>(low > kHigh ? kHigh : low);
  }
}

template <class From, class To>
void convert_run(const From* __restrict from, To* __restrict to, std::int64_t count) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(To));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = convert_lane<To>(from[i]);
  }
}

#if defined(__F16C__)
template <>
void convert_run(const Half* __restrict from, float* __restrict to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

template <>
void convert_run(const float* __restrict from, Half* __restrict to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < count; ++i) to[i] = Half(from[i]);
}
#endif

}  // namespace

void to_lanes(const void* from, Dtype type, void* to, std::int64_t count) {
  visit_dtype(type, [&]<class T>(T) { convert_run(static_cast<const T*>(from), static_cast<Lane<T>*>(to), count); });
}
void from_lanes(const void* from, void* to, Dtype type, std::int64_t count) {
  visit_dtype(type, [&]<class T>(T) { convert_run(static_cast<const Lane<T>*>(from), static_cast<T*>(to), count); });
}

}  // namespace nixie::cpu
