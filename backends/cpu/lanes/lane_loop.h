// Makes a LaneFunction from a function on scalars or on blocks of lanes.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 says both of its own AVX-512 header
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <algorithm>
#include <bit>
#include <span>
#include <type_traits>

#include <Eigen/Core>

#include "nixie/backends/cpu/lanes/lanes.h"
#include "nixie/backends/cpu/lanes/vector.h"

namespace nixie::cpu {

template <class T>
using Block = Eigen::Array<T, kLaneBlock, 1>;

template <class T>
Eigen::Map<const Block<T>> block(const T* lanes) {
  return Eigen::Map<const Block<T>>(lanes);
}

// The function of a primitive, as a row of a table; null where the table has none.
struct Lookup {
  Primitive primitive;
  LaneFunction function;
};
inline LaneFunction look_up(std::span<const Lookup> table, Primitive primitive) {
  const auto found = std::ranges::find(table, primitive, &Lookup::primitive);
  return found == table.end() ? nullptr : found->function;
}

// Plain loops, which the compiler turns into vector code. `Function` has no state, so its type is all that is needed.
template <class T, class Function>
LaneFunction unary(Function) {
  return [](const void* a, const void*, const void*, void* out, std::int64_t n) {
    const T* __restrict x = static_cast<const T*>(a);
    T* __restrict y = static_cast<T*>(out);
    n = n / kLaneBlock * kLaneBlock;
    for (std::int64_t i = 0; i < n; ++i) y[i] = Function{}(x[i]);
  };
}

template <class T, class Function>
LaneFunction binary(Function) {
  return [](const void* a, const void* b, const void*, void* out, std::int64_t n) {
    const T* __restrict x = static_cast<const T*>(a);
    const T* __restrict y = static_cast<const T*>(b);
    T* __restrict z = static_cast<T*>(out);
    n = n / kLaneBlock * kLaneBlock;
    for (std::int64_t i = 0; i < n; ++i) z[i] = Function{}(x[i], y[i]);
  };
}

// x < y ? x : y and x > y ? x : y: one instruction each.
template <class V>
V lower(V x, V y) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, Vector<float>>) return (V)_mm512_min_ps((__m512)x, (__m512)y);
#endif
  return x < y ? x : y;
}
template <class V>
V higher(V x, V y) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, Vector<float>>) return (V)_mm512_max_ps((__m512)x, (__m512)y);
#endif
  return x > y ? x : y;
}

// The larger or smaller of two numbers, of vectors lane by lane: NaN if either is, and 0 is larger than -0.
template <Primitive kPrimitive, class V>
V extreme(V x, V y) {
  constexpr bool kLargest = kPrimitive == Primitive::max;
  if constexpr (std::is_integral_v<V>) {
    return kLargest == (x > y) ? x : y;
  } else if constexpr (std::is_floating_point_v<V>) {
    using Bits = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
    const auto a = std::bit_cast<Bits>(x), b = std::bit_cast<Bits>(y);
    const V other = ((kLargest ? x > y : x < y) | (x != x)) ? x : y;
    return x == y ? std::bit_cast<V>(kLargest ? a & b : a | b) : other;
  } else if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(x[0])>>) {
    return kLargest ? higher(x, y) : lower(x, y);
  } else {
    using Bits = decltype(x == y);  // all of a lane's where they are equal
    const Bits equal = x == y, a = (Bits)x;
    const V other = kLargest ? (V)((Bits)higher(x, y) & (a | ~equal)) : (V)((Bits)lower(x, y) | (a & equal));
    return x != x ? x : other;
  }
}

// The operations of two floating numbers that most formulas are made of, on vectors of them: of a choice in a plain
// loop compilers make branches.
template <Primitive kPrimitive, class V>
V combine(V x, V y) {
  if constexpr (kPrimitive == Primitive::add) return x + y;
  if constexpr (kPrimitive == Primitive::sub) return x - y;
  if constexpr (kPrimitive == Primitive::mul) return x * y;
  if constexpr (kPrimitive == Primitive::min || kPrimitive == Primitive::max) return extreme<kPrimitive>(x, y);
  if constexpr (kPrimitive == Primitive::less) return x < y ? V{} + 1.0f : V{};
}

template <Primitive kPrimitive, class T>
void combine_lanes(const void* a, const void* b, const void*, void* out, std::int64_t n) {
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (std::int64_t i = 0; i < n; i += kLanes<T>)
    store(static_cast<T*>(out) + i, combine<kPrimitive>(load(x + i), load(y + i)));
}

// A function on Eigen arrays of one block.
template <class T, class Function>
LaneFunction block_unary(Function) {
  return [](const void* a, const void*, const void*, void* out, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += kLaneBlock)
      Eigen::Map<Block<T>>(static_cast<T*>(out) + i) = Function{}(block(static_cast<const T*>(a) + i));
  };
}

}  // namespace nixie::cpu
