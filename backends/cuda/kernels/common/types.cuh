// Storage and compute types, conversions between them, and vector loads and stores of up to 16 bytes.
#pragma once

using f64 = double;
using f32 = float;
using i64 = long long;
using i32 = int;
using i16 = short;
using i8 = signed char;
using u64 = unsigned long long;
using u32 = unsigned int;
using u16 = unsigned short;
using u8 = unsigned char;

// Types of 16 and 8 bits are storage only; nothing computes in them.
struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
struct f8e4m3 {
  unsigned char bits;
};
struct f8e5m2 {
  unsigned char bits;
};

#define NIXIE_HAS_F8 (__CUDA_ARCH__ >= 890)  // instructions that convert 8-bit floats

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;

__device__ inline float widen(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
// A move, which the compiler leaves where the number is used; a shift it would make right after the load, where both
// numbers of a word take a register.
__device__ inline float widen(bf16 x) {
  float y;
  asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
  return y;
}
// All numbers of 8-bit floats are numbers of f16. An f8e5m2 is its upper half.
__device__ inline f16 as_f16(f8e5m2 x) { return {static_cast<unsigned short>(x.bits << 8)}; }
__device__ inline f16 as_f16(f8e4m3 x) {
#if NIXIE_HAS_F8
  unsigned int pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(x.bits)));
  return {static_cast<unsigned short>(pair)};
#else  // an f16 has one more bit of exponent, with a bias that is larger by 8
  f16 y{static_cast<unsigned short>((x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7)};
  asm("mul.f16 %0, %0, %1;" : "+h"(y.bits) : "h"(static_cast<unsigned short>(0x5c00)));
  return (x.bits & 0x7f) == 0x7f ? f16{0x7fff} : y;
#endif
}
__device__ inline float widen(f8e5m2 x) { return widen(as_f16(x)); }
__device__ inline float widen(f8e4m3 x) { return widen(as_f16(x)); }
template <class T>
__device__ inline T widen(T x) {
  return x;
}

// The nearest float towards zero, with its last bit set if it is not the number itself: a second rounding, to a half,
// gives the half nearest to the number.
__device__ inline float round_to_odd(double x) {
  const float y = __double2float_rz(x);
  return __int_as_float(__float_as_int(y) | (static_cast<double>(y) != x));
}

// The float from which a number is rounded to a half.
template <class From>
__device__ inline float narrowed(From x) {
  if constexpr (kSame<From, f64>)
    return round_to_odd(x);
  else
    return static_cast<float>(x);
}

template <class T>
constexpr bool kNarrow = kSame<T, f16> || kSame<T, bf16> || kSame<T, f8e4m3> || kSame<T, f8e5m2>;

// The 8-bit float of a number, as core's Float8: the nearest, saturating; NaN is 0x7f.
template <class To>
__device__ inline To to_f8(float x) {
  constexpr bool is_e4m3 = kSame<To, f8e4m3>;
#if NIXIE_HAS_F8
  unsigned short pair;
  if constexpr (is_e4m3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x));
  return {static_cast<unsigned char>(pair)};
#else
  constexpr u32 mantissa = is_e4m3 ? 3 : 2, bias = is_e4m3 ? 7 : 15, largest = is_e4m3 ? 0x7e : 0x7b,
                shift = 23 - mantissa;
  constexpr u32 anchor = (151 - bias - mantissa) << 23;  // rounds subnormal numbers when it is added
  const u32 bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
  const u32 normal =
      ((magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1)) >> shift) - ((127 - bias) << mantissa);
  const u32 subnormal = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(anchor)) - anchor;
  const u32 any = magnitude < (128 - bias) << 23 ? subnormal : normal, finite = any < largest ? any : largest;
  return {static_cast<unsigned char>(magnitude > 0x7f800000u ? 0x7fu : finite | (bits >> 24 & 0x80u))};
#endif
}

// Converts any type to any other: floats to nearest even, 8-bit ones saturating, integers toward zero and saturating;
// NaN becomes 0 in these.
template <class To, class From>
__device__ inline To convert(From from) {
  if constexpr (kSame<To, From>) {
    return from;
  } else if constexpr (kNarrow<From>) {
    return convert<To>(widen(from));
  } else if constexpr (kSame<To, f8e4m3> || kSame<To, f8e5m2>) {
    return to_f8<To>(narrowed(from));
  } else if constexpr (kSame<To, f16>) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(narrowed(from)));
    return y;
  } else if constexpr (kSame<To, bf16>) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(narrowed(from)));
    return y;
  } else if constexpr (kSame<To, f32> || kSame<To, f64>) {
    return static_cast<To>(from);
  } else if constexpr (kSame<To, bool>) {
    return from != From(0);
  } else if constexpr (kSame<To, i64>) {
    if constexpr (kSame<From, f32>)
      return from != from ? 0 : __float2ll_rz(from);
    else if constexpr (kSame<From, f64>)
      return from != from ? 0 : __double2ll_rz(from);
    else
      return from;
  } else if constexpr (kSame<To, i32>) {
    if constexpr (kSame<From, f32>)
      return from != from ? 0 : __float2int_rz(from);
    else if constexpr (kSame<From, f64>)
      return from != from ? 0 : __double2int_rz(from);
    else if constexpr (kSame<From, i64>)
      return static_cast<i32>(from < -2147483648LL ? -2147483648LL : from > 2147483647LL ? 2147483647LL : from);
    else
      return from;
  } else if constexpr (kSame<To, u32>) {
    const i64 x = convert<i64>(from);
    return static_cast<u32>(x < 0 ? 0 : x > 4294967295LL ? 4294967295LL : x);
  } else {
    constexpr bool is_signed = static_cast<To>(-1) < To(0);
    constexpr int high = (1 << (8 * sizeof(To) - is_signed)) - 1, low = is_signed ? -high - 1 : 0;
    const int x = convert<i32>(from);
    return static_cast<To>(x < low ? low : x > high ? high : x);
  }
}

template <class T, int n>
struct alignas(sizeof(T) * n <= 16 ? sizeof(T) * n : 16) Vector {
  T lane[n];
};

template <int bytes>
struct Word;
template <>
struct Word<1> {
  using Type = unsigned char;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned int;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

// n elements at an address aligned to their size, up to 16 bytes. `read` is for memory that is not written while the
// kernel runs.
template <int n, class T>
__device__ inline Vector<T, n> read(const T* from) {
  constexpr int bytes = sizeof(T) * n <= 16 ? sizeof(T) * n : 16;
  using Piece = typename Word<bytes>::Type;
  Vector<T, n> to;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(to)) / bytes; ++i)
    reinterpret_cast<Piece*>(&to)[i] = __ldg(reinterpret_cast<const Piece*>(from) + i);
  return to;
}
template <int n, class T>
__device__ inline Vector<T, n> read_written(const T* from) {
  constexpr int bytes = sizeof(T) * n <= 16 ? sizeof(T) * n : 16;
  using Piece = typename Word<bytes>::Type;
  Vector<T, n> to;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(to)) / bytes; ++i)
    reinterpret_cast<Piece*>(&to)[i] = reinterpret_cast<const Piece*>(from)[i];
  return to;
}
template <int n, class T>
__device__ inline void write(T* to, const Vector<T, n>& from) {
  constexpr int bytes = sizeof(T) * n <= 16 ? sizeof(T) * n : 16;
  using Piece = typename Word<bytes>::Type;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(from)) / bytes; ++i)
    reinterpret_cast<Piece*>(to)[i] = reinterpret_cast<const Piece*>(&from)[i];
}
// Stores the 8-bit floats of n numbers, four by two instructions where there are any.
#define NIXIE_TO_F8(FORMAT)                                                                           \
  asm("{.reg .b16 low, high; cvt.rn.satfinite." FORMAT "x2.f32 low, %2, %1; cvt.rn.satfinite." FORMAT \
      "x2.f32 high, %4, %3; mov.b32 %0, {low, high};}"                                                \
      : "=r"(words.lane[i])                                                                           \
      : "f"(x[4 * i]), "f"(x[4 * i + 1]), "f"(x[4 * i + 2]), "f"(x[4 * i + 3]))
template <int n, class To>
__device__ inline void write_f8(To* to, const float (&x)[n]) {
  if constexpr (NIXIE_HAS_F8 && n % 4 == 0) {
    Vector<u32, n / 4> words;
#pragma unroll
    for (int i = 0; i < n / 4; ++i) {
      if constexpr (kSame<To, f8e4m3>)
        NIXIE_TO_F8("e4m3");
      else
        NIXIE_TO_F8("e5m2");
    }
    write(reinterpret_cast<u32*>(to), words);
  } else {
    Vector<To, n> all;
#pragma unroll
    for (int i = 0; i < n; ++i) all.lane[i] = to_f8<To>(x[i]);
    write(to, all);
  }
}
// A load in flight of 8 halves that begin at any address: the two aligned 16-byte pieces that hold them.
template <class T>
struct Unaligned {
  static_assert(sizeof(T) == 2);
  uint4 left, right;
  u32 ahead;   // elements of `left` that come before the 8
  u32 wanted;  // one bit per element; elements whose bit is 0 become zero
};

// Loads elements [low, high) of the 8 at an address. A piece that holds none of them is not read.
template <class T>
__device__ inline Unaligned<T> read_between(const T* from, int low, int high) {
  const u64 address = reinterpret_cast<u64>(from);
  const uint4* const pieces = reinterpret_cast<const uint4*>(address & ~15ull);
  const int ahead = static_cast<int>(address % 16) / 2, in_left = 8 - ahead;
  Unaligned<T> to{{0, 0, 0, 0}, {0, 0, 0, 0}, static_cast<u32>(ahead), 0};
  if (low >= high || low >= 8 || high <= 0) return to;
  if (low < in_left) to.left = __ldg(pieces);
  if (high > in_left) to.right = __ldg(pieces + 1);
  to.wanted = (low > 0 ? 0xffu << low : 0xffu) & (high < 8 ? 0xffu >> (8 - high) : 0xffu);
  return to;
}

// The elements of a load; waits for it if it is still in flight.
template <class T, int n>
__device__ inline Vector<T, n> arrived(const Vector<T, n>& read) {
  return read;
}
template <class T>
__device__ inline Vector<T, 8> arrived(const Unaligned<T>& read) {
  const u32 all[8] = {read.left.x,  read.left.y,  read.left.z,  read.left.w,
                      read.right.x, read.right.y, read.right.z, read.right.w};
  u32 twos[6], words[5];
#pragma unroll
  for (int i = 0; i < 6; ++i) twos[i] = read.ahead & 4 ? all[i + 2] : all[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) words[i] = read.ahead & 2 ? twos[i + 1] : twos[i];
  Vector<T, 8> to;
  u32* const out = reinterpret_cast<u32*>(&to);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 low = read.wanted >> 2 * i & 1 ? 0xffffu : 0u, high = read.wanted >> 2 * i & 2 ? 0xffff0000u : 0u;
    out[i] = __funnelshift_r(words[i], words[i + 1], read.ahead % 2 * 16) & (low | high);
  }
  return to;
}
template <int n, class T>
__device__ inline Vector<T, n> filled(T value) {
  Vector<T, n> all;
#pragma unroll
  for (int i = 0; i < n; ++i) all.lane[i] = value;
  return all;
}
