// The element types: names, promotion table and half-precision rounding.
#include "nixie/core/base/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <ranges>

namespace nixie {
namespace {

struct Row {
  std::string_view name;
  std::int64_t bytes;
};
constexpr Row kRows[] = {{"f64", 8},    {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f8e4m3", 1},
                         {"f8e5m2", 1}, {"i64", 8}, {"i32", 4}, {"i16", 2},  {"i8", 1},
                         {"u64", 8},    {"u32", 4}, {"u16", 2}, {"u8", 1},   {"bool", 1}};
static_assert(std::size(kRows) == kDtypeCount);

const Row& row(Dtype dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  if (index >= std::size(kRows)) fail(Fault::usage, "dtype ", index, " is unknown, expected one of ", dtype_names());
  return kRows[index];
}

}  // namespace

std::int64_t size_of(Dtype dtype) { return row(dtype).bytes; }
std::string_view to_string(Dtype dtype) { return row(dtype).name; }
std::ostream& operator<<(std::ostream& out, Dtype dtype) { return out << to_string(dtype); }
std::string dtype_names() { return fmt::format("{}", fmt::join(kRows | std::views::transform(&Row::name), ", ")); }

Dtype dtype_named(std::string_view name) {
  for (int i = 0; i < kDtypeCount; ++i)
    if (kRows[static_cast<std::size_t>(i)].name == name) return static_cast<Dtype>(i);
  fail(Fault::usage, "dtype \"", name, "\" is unknown, expected one of ", dtype_names());
}

bool is_floating(Dtype dtype) { return dtype <= Dtype::f8e5m2; }
bool is_f8(Dtype dtype) { return dtype == Dtype::f8e4m3 || dtype == Dtype::f8e5m2; }
bool is_unsigned(Dtype dtype) { return dtype >= Dtype::u64 && dtype <= Dtype::u8; }

Dtype compute_dtype(Dtype dtype) {
  if (size_of(dtype) == 8) return dtype;
  return is_floating(dtype) ? Dtype::f32 : dtype == Dtype::u32 ? Dtype::i64 : Dtype::i32;
}
Dtype plan_dtype(Dtype dtype) { return dtype == Dtype::u64 ? Dtype::i64 : dtype; }

Dtype gradient_dtype(Dtype dtype) { return is_f8(dtype) ? Dtype::f32 : dtype; }
Dtype sum_dtype(Dtype dtype) {
  if (is_f8(dtype)) return Dtype::f32;
  return is_unsigned(dtype) ? Dtype::u64 : is_floating(dtype) || dtype == Dtype::i32 ? dtype : Dtype::i64;
}
Dtype product_dtype(Dtype dtype) { return is_floating(dtype) ? gradient_dtype(dtype) : compute_dtype(dtype); }

Dtype promote(Dtype a, Dtype b) {
  if (a > b) std::swap(a, b);
  if (is_f8(a) || (a == Dtype::f16 && b == Dtype::bf16)) return Dtype::f32;
  if (is_floating(a) || is_unsigned(a) || !is_unsigned(b)) return a;
  for (const Dtype both : {Dtype::i16, Dtype::i32, Dtype::i64})
    if (size_of(both) >= std::max(size_of(a), 2 * size_of(b))) return both;
  return Dtype::f64;
}

Half::Half(float value) {
  const std::uint32_t f = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (f >> 16) & 0x8000u, magnitude = f & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN stays NaN
    bits = static_cast<std::uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
    bits = static_cast<std::uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // subnormal: let float addition round to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  } else {
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

Half::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

Bfloat16::Bfloat16(float value) {
  const std::uint32_t f = std::bit_cast<std::uint32_t>(value);
  if ((f & 0x7fffffffu) > 0x7f800000u) {
    bits = static_cast<std::uint16_t>((f >> 16) | 0x40u);
  } else {
    bits = static_cast<std::uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
  }
}

}  // namespace nixie

auto fmt::formatter<nixie::Dtype>::format(nixie::Dtype dtype, format_context& context) const
    -> format_context::iterator {
  return fmt::formatter<std::string_view>::format(nixie::to_string(dtype), context);
}
