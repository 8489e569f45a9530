// Rounding to a format as formulas of exact arithmetic.
#include "nixie/core/ops/rounding.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace nixie {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

/// The magnitude on the format's grid, whose exponents have no end. Adding and subtracting 1.5 times a power of two
/// whose last bit is the distance of a's neighbours rounds to it, ties to even, and is exact otherwise.
Symbol on_grid(Symbol a, Symbol binade, const Format& format, Rounding rounding, int precision, const Symbol* random) {
  const Symbol anchor = binade * (1.5 * power_of_two(precision - 1 - format.mantissa_bits));
  const Symbol nearest = (a + anchor) - anchor;
  if (rounding == Rounding::nearest) return nearest;
  const Symbol quantum = binade * power_of_two(-format.mantissa_bits);
  const Symbol below = select(nearest > a, nearest - quantum, nearest);
  return rounding == Rounding::toward_zero ? below : select(*random * quantum < a - below, below + quantum, below);
}

}  // namespace

Symbol rounded(Symbol x, const Format& format, Rounding rounding, int precision, const Symbol* random) {
  const double far = format.saturating   ? format.largest
                     : format.infinities ? kInfinity
                     : format.nan        ? kNaN
                                         : format.largest;
  const Symbol a = abs(x);
  // With 8 bits of exponent the anchor of large numbers would leave f32, and small ones would not leave room for the
  // random bits: these are moved by 2^40 towards the middle and back.
  const bool is_wide = precision == 24 && std::ilogb(format.largest) + precision - format.mantissa_bits > 126;
  const double down = power_of_two(-40), up = power_of_two(40), least = power_of_two(1 - format.bias);
  const Symbol is_large = a >= up;
  const Symbol moved = is_wide ? a * select(is_large, down, up) : a;
  const Symbol grid =
      on_grid(moved, max(binade(moved), is_wide ? least * up : least), format, rounding, precision, random);
  Symbol y = is_wide ? grid * select(is_large, up, down) : grid;
  if (!format.subnormals) y = select(y < least, 0, y);
  const Symbol limit =
      format.lowest == -format.largest ? Symbol(format.largest) : select(x < 0, -format.lowest, format.largest);
  const Symbol beyond = format.saturating ? limit : Symbol(far);
  // The grid of infinity and NaN is NaN.
  const double largest = precision == 24 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  if (rounding == Rounding::toward_zero)
    y = select(y <= limit, y, select(a <= largest, limit, beyond));
  else
    y = select(y <= limit, y, beyond);
  if (!(format.nan && std::isnan(far))) y = select(is_nan(x), format.nan ? kNaN : 0.0, y);
  const Symbol with_sign = copysign(y, x);
  return format.signed_zero ? with_sign : select(y == 0, 0, with_sign);
}

Symbol nearest_f32(Symbol x, const Format& format) {
  // One instruction on a GPU, with the same results.
  if (format == format_named("f16") || format == Format::ieee(5, 10)) return apply(Primitive::round_f16, {x});
  if (format == format_named("bf16") || format == Format::ieee(8, 7)) return apply(Primitive::round_bf16, {x});
  const bool is_wide = std::ilogb(format.largest) + 24 - format.mantissa_bits > 126,
             is_symmetric = format.lowest == -format.largest;
  if (is_wide || !is_symmetric || !format.nan || !format.subnormals || !(format.saturating || format.infinities))
    return rounded(x, format, Rounding::nearest, 24, nullptr);
  // As on_grid, of both signs.
  const auto grid = [&](Symbol v) {
    const Symbol anchor =
        max(binade(v), power_of_two(1 - format.bias)) * (1.5 * power_of_two(23 - format.mantissa_bits));
    return (v + anchor) - anchor;
  };
  if (format.saturating) return grid(clip(x, -format.largest, format.largest));
  const Symbol y = grid(x);
  return select(abs(y) <= format.largest, y, x * kInfinity);  // NaN and infinity, too
}

std::string format_key(const Format& format) {
  return fmt::format("{} {} {} {} {} {} {}{}{}{}{}", format.name, format.exponent_bits, format.mantissa_bits,
                     format.bias, format.largest, format.lowest, format.infinities, format.nan, format.saturating,
                     format.subnormals, format.signed_zero);
}

}  // namespace nixie
