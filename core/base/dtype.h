// The element types, their promotion, and the two half-precision storage types.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "nixie/core/base/error.h"

namespace nixie {

/// Element types. f64 computes in double, i64 in 64-bit integer, the other integers and bool in 32-bit integer,
/// everything else in float. `boolean` is named "bool".
enum class Dtype : std::uint8_t { f64, f32, f16, bf16, i64, i32, u8, i8, boolean };

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

/// The C++ element types, in Dtype's order.
using ElementTypes =
    std::tuple<double, float, Half, Bfloat16, std::int64_t, std::int32_t, std::uint8_t, std::int8_t, bool>;
inline constexpr int kDtypeCount = std::tuple_size_v<ElementTypes>;

/// Bytes per element.
std::int64_t size_of(Dtype dtype);
/// "f32" and so on.
std::string_view to_string(Dtype dtype);
std::ostream& operator<<(std::ostream& out, Dtype dtype);
/// All names, for messages: "f64, f32, ...".
std::string dtype_names();
/// The type of that name; throws for an unknown name.
Dtype dtype_named(std::string_view name);
bool is_floating(Dtype dtype);
/// The type that arithmetic on `dtype` uses: f64, f32, i64 or i32.
Dtype compute_dtype(Dtype dtype);
/// The type of sums and products of many elements: i64 for u8, i8 and bool, as in numpy; others keep theirs.
Dtype sum_dtype(Dtype dtype);
/// The type of matrix products and convolutions: i32 for u8, i8 and bool, which is exact for up to 2^31 / 255^2 =
/// 33,025 terms of bytes; others keep theirs.
Dtype product_dtype(Dtype dtype);

/// The result type of arithmetic on two arrays:
///         f64  f32  f16  bf16 i64  i32  u8   i8   bool
///   f64   f64  f64  f64  f64  f64  f64  f64  f64  f64
///   f32   f64  f32  f32  f32  f32  f32  f32  f32  f32
///   f16   f64  f32  f16  f32  f16  f16  f16  f16  f16
///   bf16  f64  f32  f32  bf16 bf16 bf16 bf16 bf16 bf16
///   i64   f64  f32  f16  bf16 i64  i64  i64  i64  i64
///   i32   f64  f32  f16  bf16 i64  i32  i32  i32  i32
///   u8    f64  f32  f16  bf16 i64  i32  u8   i32  u8
///   i8    f64  f32  f16  bf16 i64  i32  i32  i8   i8
///   bool  f64  f32  f16  bf16 i64  i32  u8   i8   bool
/// A C++ number is weakly typed: it takes the type of the array beside it (a fraction beside integers gives f32, an
/// integer beside bools i32).
Dtype promote(Dtype a, Dtype b);

/// The Dtype of a C++ element type.
template <class T, int i = 0>
constexpr Dtype dtype_of() {
  static_assert(i < kDtypeCount, "no Dtype for this C++ type");
  if constexpr (std::is_same_v<T, std::tuple_element_t<i, ElementTypes>>)
    return static_cast<Dtype>(i);
  else
    return dtype_of<T, i + 1>();
}

/// Calls `function(T{})` with the C++ type of `dtype`.
template <int i = 0, class Function>
decltype(auto) visit_dtype(Dtype dtype, Function&& function) {
  if constexpr (i + 1 < kDtypeCount)
    if (static_cast<int>(dtype) != i) return visit_dtype<i + 1>(dtype, std::forward<Function>(function));
  return function(std::tuple_element_t<i, ElementTypes>{});
}

/// The same with the C++ type that arithmetic on `dtype` uses.
template <class Function>
decltype(auto) visit_compute_dtype(Dtype dtype, Function&& function) {
  const Dtype type = compute_dtype(dtype);
  if (type == Dtype::f32) return function(float{});
  if (type == Dtype::f64) return function(double{});
  if (type == Dtype::i64) return function(std::int64_t{});
  return function(std::int32_t{});
}

/// The nearest float towards zero, with its last bit set if it is not the number itself ("round to odd"). A second
/// rounding, to a half, then gives the half nearest to the number.
inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  bits -= std::abs(static_cast<double>(nearest)) > std::abs(value) ? 1 : 0;
  bits |= static_cast<double>(nearest) != value ? 1 : 0;
  return std::bit_cast<float>(bits);
}
inline float round_to_odd(float value) { return value; }
template <class Integer>
requires std::is_integral_v<Integer>
float round_to_odd(Integer value) {
  constexpr auto kExact = std::int64_t{1} << 53;  // up to here a double holds every whole number
  const std::int64_t wide = value;
  if constexpr (sizeof(Integer) < 4) return static_cast<float>(value);
  if (sizeof(Integer) == 4 || (wide <= kExact && wide >= -kExact)) return round_to_odd(static_cast<double>(value));
  return round_to_odd(0x1p12 * static_cast<double>((wide >> 12) | ((wide & 0xfff) != 0 ? 1 : 0)));
}

/// Converts one element, on the host as in kernels: to integers toward zero and saturating (NaN gives 0), to halves the
/// nearest, ties to even, to bool by comparison with 0.
template <class To, class From>
To convert(From value) {
  constexpr bool from_half = std::is_same_v<From, Half> || std::is_same_v<From, Bfloat16>;
  constexpr bool to_half = std::is_same_v<To, Half> || std::is_same_v<To, Bfloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (from_half) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (to_half) {
    return To(round_to_odd(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else {
    const double number = static_cast<double>(value);
    if (number != number) return To{0};
    if (number <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (number >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  }
}

}  // namespace nixie

template <>
struct fmt::formatter<nixie::Dtype> : fmt::formatter<std::string_view> {
  auto format(nixie::Dtype dtype, format_context& context) const -> format_context::iterator;
};
