// Vectors of the machine's widest registers, by the vector extensions of GCC and clang, and fused multiply-add, which
// these lack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#if defined(__FMA__) || defined(__AVX__)
#include <immintrin.h>
#endif

namespace nixie::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

/// One register of `T`; loads and stores through it need only T's alignment.
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
  typedef T unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(T)), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
inline Vector<T> load(const T* from) {
  return *reinterpret_cast<const typename VectorOf<T>::unaligned*>(from);
}
template <class T>
inline void store(T* to, Vector<T> value) {
  *reinterpret_cast<typename VectorOf<T>::unaligned*>(to) = value;
}
template <class T>
inline Vector<T> broadcast(T value) {
  return value - Vector<T>{};
}

/// Vectors written past the caches, `to` aligned: what nobody reads soon need not be fetched first, nor push out what
/// somebody does. Other threads see them after `end_streams`.
template <class T>
inline void stream(T* to, Vector<T> value) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)value);
#elif defined(__AVX__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)value);
#else
  store(to, value);
#endif
}
inline void end_streams() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}
/// Copies a run of elements, most of it as streams.
template <class T>
inline void stream_row(const T* from, std::int64_t count, T* to) {
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kVectorBytes / sizeof(T));
  std::int64_t i = std::min<std::int64_t>(count, (kLanes<T> - past) % kLanes<T>);
  std::copy_n(from, i, to);
  for (; i + kLanes<T> <= count; i += kLanes<T>) stream(to + i, load(from + i));
  std::copy(from + i, from + count, to + i);
}
/// Results of more bytes leave the caches before they are read again.
inline constexpr std::int64_t kStreamedBytes = 4 << 20;

/// a * b + c, rounded once where the machine can (the build forbids the compiler to contract on its own).
template <class T>
inline Vector<T> multiply_add(Vector<T> a, Vector<T> b, Vector<T> c) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) return (Vector<T>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  if constexpr (std::is_same_v<T, double>) return (Vector<T>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  if constexpr (std::is_same_v<T, float>) return (Vector<T>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  if constexpr (std::is_same_v<T, double>) return (Vector<T>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#endif
  return a * b + c;
}

}  // namespace nixie::cpu
