// The element types, how they promote, and the two half-precision storage types.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "nixie/core/base/error.h"

namespace nixie {

/// Element types. f64 computes in double, integers in 32-bit integer, everything else in float.
enum class Dtype : std::uint8_t { f64, f32, f16, bf16, i32, u8, i8 };
inline constexpr int kDtypeCount = 7;

/// IEEE binary16, for storage only; conversions round to nearest even.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
};

/// bfloat16, for storage only; conversions round to nearest even.
struct Bfloat16 {
  std::uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// Bytes per element.
std::int64_t size_of(Dtype dtype);
/// "f32" and so on.
std::string_view to_string(Dtype dtype);
/// The type of that name; throws on any other word.
Dtype dtype_named(std::string_view name);
bool is_floating(Dtype dtype);
/// The type arithmetic on `dtype` is done in: f64, f32 or i32.
Dtype compute_dtype(Dtype dtype);

/// The result type of arithmetic on two arrays:
///         f64  f32  f16  bf16 i32  u8   i8
///   f64   f64  f64  f64  f64  f64  f64  f64
///   f32   f64  f32  f32  f32  f32  f32  f32
///   f16   f64  f32  f16  f32  f16  f16  f16
///   bf16  f64  f32  f32  bf16 bf16 bf16 bf16
///   i32   f64  f32  f16  bf16 i32  i32  i32
///   u8    f64  f32  f16  bf16 i32  u8   i32
///   i8    f64  f32  f16  bf16 i32  i32  i8
/// A C++ number next to an array is weak: it takes the array's type (a fraction next to integers makes f32).
Dtype promote(Dtype a, Dtype b);

/// The Dtype of a C++ element type.
template <class T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return Dtype::f64;
  else if constexpr (std::is_same_v<T, float>)
    return Dtype::f32;
  else if constexpr (std::is_same_v<T, Half>)
    return Dtype::f16;
  else if constexpr (std::is_same_v<T, Bfloat16>)
    return Dtype::bf16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return Dtype::i32;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return Dtype::u8;
  else {
    static_assert(std::is_same_v<T, std::int8_t>, "no Dtype for this C++ type");
    return Dtype::i8;
  }
}

/// Calls `function(T{})` with the C++ type of `dtype`.
template <class Function>
decltype(auto) visit_dtype(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::f64:
      return function(double{});
    case Dtype::f32:
      return function(float{});
    case Dtype::f16:
      return function(Half{});
    case Dtype::bf16:
      return function(Bfloat16{});
    case Dtype::i32:
      return function(std::int32_t{});
    case Dtype::u8:
      return function(std::uint8_t{});
    case Dtype::i8:
      break;
  }
  return function(std::int8_t{});
}

/// Converts one element the way kernels store it: to integers nearest-even and saturating (NaN gives 0), to halves
/// through float.
template <class To, class From>
To convert(From value) {
  constexpr bool from_half = std::is_same_v<From, Half> || std::is_same_v<From, Bfloat16>;
  constexpr bool to_half = std::is_same_v<To, Half> || std::is_same_v<To, Bfloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (from_half) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (to_half) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else {
    const double rounded =
        std::is_floating_point_v<From> ? std::nearbyint(static_cast<double>(value)) : static_cast<double>(value);
    if (rounded != rounded) return To{0};
    if (rounded <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (rounded >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(rounded);
  }
}

}  // namespace nixie

template <>
struct fmt::formatter<nixie::Dtype> : fmt::formatter<std::string_view> {
  auto format(nixie::Dtype dtype, format_context& context) const {
    return fmt::formatter<std::string_view>::format(nixie::to_string(dtype), context);
  }
};
