// Vectors of the machine's widest registers, by the vector extensions of GCC and clang, and fused multiply-add, which
// these lack.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__FMA__) || defined(__AVX512F__)
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
