// The element types, their promotion, and the storage types of 16 and 8 bits.
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

/// Element types. f64 computes in double, i64, u64 and u32 in 64-bit integer, the other integers and bool in 32-bit
/// integer, everything else in float. `boolean` is named "bool".
enum class Dtype : std::uint8_t { f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

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

/// An 8-bit float of OCP, for storage only: E4M3 (3 bits of mantissa, largest number 448, no infinity) or E5M2 (2 bits,
/// 57344). Conversions round to nearest even and saturate, as OCP's saturating mode says: what is beyond the largest
/// number, infinity too, becomes the largest number; NaN becomes code 0x7f. An E5M2 of another program may be infinite.
template <int mantissa_bits>
struct Float8 {
  static constexpr int kBias = (1 << (6 - mantissa_bits)) - 1, kShift = 23 - mantissa_bits;
  static constexpr std::uint32_t kLargest = mantissa_bits == 3 ? 0x7e : 0x7b;  // its code
  std::uint8_t bits = 0;
  Float8() = default;
  explicit Float8(float value);
  explicit operator float() const;
};
using F8e4m3 = Float8<3>;
using F8e5m2 = Float8<2>;

/// The C++ element types, in Dtype's order.
using ElementTypes = std::tuple<double, float, Half, Bfloat16, F8e4m3, F8e5m2, std::int64_t, std::int32_t, std::int16_t,
                                std::int8_t, std::uint64_t, std::uint32_t, std::uint16_t, std::uint8_t, bool>;
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
/// Whether it is an 8-bit float. Arithmetic on these gives f32; views, concatenations and choices of elements keep
/// them.
bool is_f8(Dtype dtype);
/// Whether it is u64, u32, u16 or u8.
bool is_unsigned(Dtype dtype);
/// The type that arithmetic on `dtype` uses: f64, f32, i64, i32 or u64.
Dtype compute_dtype(Dtype dtype);
/// The type that plans, and so backends, have for it: i64 for u64, the same bits; others as they are.
Dtype plan_dtype(Dtype dtype);
/// The type of a value's gradient: f32 for 8-bit floats; others keep theirs.
Dtype gradient_dtype(Dtype dtype);
/// The type of sums and products of many elements: u64 for unsigned integers, i64 for i16, i8 and bool, as in numpy,
/// f32 for 8-bit floats; others keep theirs.
Dtype sum_dtype(Dtype dtype);
/// The type of matrix products and convolutions: that of arithmetic on integers and bool, where i32 is exact for up to
/// 2^31 / 255^2 = 33,025 terms of bytes, f32 for 8-bit floats; others keep theirs.
Dtype product_dtype(Dtype dtype);

/// The result type of arithmetic on two arrays:
///   floats                 the wider one; f16 with bf16, and two of 8 bits: f32
///   a float and another    the float; of 8 bits: f32
///   integers of one sign   the wider one
///   i.. with u..           the narrowest i.. that holds both; with u64: f64
///   bool and another       the other
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

/// The same with the C++ type in which backends compute with it.
template <class Function>
decltype(auto) visit_compute_dtype(Dtype dtype, Function&& function) {
  const Dtype type = plan_dtype(compute_dtype(dtype));
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
  if constexpr (sizeof(Integer) < 4) return static_cast<float>(value);
  if (std::cmp_less_equal(+value, kExact) && std::cmp_greater_equal(+value, -kExact))
    return round_to_odd(static_cast<double>(value));
  return round_to_odd(0x1p12 * static_cast<double>((value >> 12) | ((value & 0xfff) != 0 ? 1 : 0)));
}

/// Whether T is a float of 16 or 8 bits, for storage only.
template <class T>
inline constexpr bool kIsNarrow =
    std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16> || std::is_same_v<T, F8e4m3> || std::is_same_v<T, F8e5m2>;

/// Converts one element, on the host as in kernels: to integers toward zero and saturating (NaN gives 0), to halves the
/// nearest, ties to even, to 8-bit floats as Float8 says, to bool by comparison with 0.
template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsNarrow<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (kIsNarrow<To>) {
    return To(round_to_odd(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_integral_v<From>) {
    if (std::cmp_less(+value, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (std::cmp_greater(+value, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    if (value != value) return To{0};
    if (value <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  }
}

// Both without branches, so that loops over them become vectors.
template <int mantissa_bits>
Float8<mantissa_bits>::Float8(float value) {
  constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  // 2^23 times the distance of subnormal numbers: added, it rounds to a multiple of that distance.
  constexpr float kAnchor = std::bit_cast<float>(static_cast<std::uint32_t>(151 - kBias - mantissa_bits) << 23);
  const auto f = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = f & 0x7fffffffu, half = (1u << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1u);
  const std::uint32_t normal =
      ((magnitude + half) >> kShift) - (static_cast<std::uint32_t>(127 - kBias) << mantissa_bits);
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + kAnchor) - std::bit_cast<std::uint32_t>(kAnchor);
  const std::uint32_t any = magnitude < kLeastNormal ? subnormal : normal, finite = any < kLargest ? any : kLargest;
  bits = static_cast<std::uint8_t>(magnitude > 0x7f800000u ? 0x7fu : finite | ((f >> 24) & 0x80u));
}

template <int mantissa_bits>
Float8<mantissa_bits>::operator float() const {
  constexpr float kQuantum = std::bit_cast<float>(static_cast<std::uint32_t>(128 - kBias - mantissa_bits) << 23);
  const std::uint32_t code = bits & 0x7fu, infinity = 0x7f800000u, nan = 0x7fc00000u;
  const std::uint32_t normal = (code << kShift) + (static_cast<std::uint32_t>(127 - kBias) << 23);
  const auto subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(code)) * kQuantum);
  const std::uint32_t finite = code < (1u << mantissa_bits) ? subnormal : normal;
  const std::uint32_t beyond = mantissa_bits == 2 && code == 0x7c ? infinity : nan;
  return std::bit_cast<float>((code <= kLargest ? finite : beyond) | (static_cast<std::uint32_t>(bits & 0x80u) << 24));
}

}  // namespace nixie

template <>
struct fmt::formatter<nixie::Dtype> : fmt::formatter<std::string_view> {
  auto format(nixie::Dtype dtype, format_context& context) const -> format_context::iterator;
};
