// Format: a number format as a value, and rounding to it: any
// float of up to 21 bits of mantissa, fixed point, integers.
//
//   Tensor w8 = quantized(w, format_named("e4m3"));
//   Tensor s = quantized(w, format_named("bf16"), Rounding::stochastic, uniform(w.shape(), stream, step));
//   Tensor mx = scaled_quantized(x, format_named("e2m1"), {.group = ScaleGroup::block, .axis = 1});
//
// A quantized Tensor keeps its type (f32, f64 or a half) and holds numbers of the format alone. The rounding is
// ordinary arithmetic that is exact in that type, so every backend gives the same bits; it fuses with its neighbours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nixie/core/graph/tensor.h"

namespace nixie {

/// A set of numbers: +-m 2^(e - mantissa_bits) with e from 1 - bias up and m of mantissa_bits + 1 bits.
struct Format {
  std::string name = {};
  int exponent_bits = 8, mantissa_bits = 21;  ///< 0 exponent bits: fixed point; the leading one is not counted
  int bias = 127;
  double largest = 0, lowest = 0;  ///< the largest and lowest finite numbers
  bool infinities = true;          ///< it has them
  bool nan = true;                 ///< it has NaN; else NaN becomes 0
  /// Larger numbers and infinity become `largest`; else they become infinity, or NaN if the format has no infinity.
  bool saturating = false;
  bool subnormals = true;   ///< else numbers below 2^(1 - bias) become 0
  bool signed_zero = true;  ///< else -0 becomes 0

  /// The distance of neighbours next to zero.
  double quantum() const;
  /// Bits of a stored number, the sign included.
  int bits() const;
  bool operator==(const Format&) const = default;

  /// IEEE 754's layout: infinities and NaN take the largest exponent. Throws unless 2 to 8 bits of exponent and 1 to 21
  /// of mantissa are asked for.
  static Format ieee(int exponent_bits, int mantissa_bits);
  /// Whole numbers of 2 to 16 bits, saturating.
  static Format integer(int bits, bool is_signed = true);
  /// Multiples of 2^-fraction_bits, saturating: integer(bits) times 2^-fraction_bits.
  static Format fixed_point(int bits, int fraction_bits);
  /// IEEE P3109's binary<k>p<p>: k bits, p of precision, one zero,
  /// one NaN; `extended` has infinities, the others saturate.
  static Format p3109(int k, int p, bool extended);
};

/// The format of a name: f16, bf16, tf32; OCP's e4m3, e5m2 (8 bits), e3m2, e2m3 (6), e2m1 (4), all but e5m2 without
/// infinities and saturating, as is e5m2 here; e4m3fnuz, e5m2fnuz; int4, int8, int16, uint4, uint8, uint16; P3109's
/// binary8p3sf, binary8p4se and so on; any other e<E>m<M> as Format::ieee. Throws for an unknown name.
Format format_named(std::string_view name);
/// Those that have a name of their own, for messages and tables.
std::vector<std::string> format_names();

enum class Rounding : std::uint8_t {
  nearest,      ///< ties to the even mantissa
  toward_zero,  ///< never beyond `largest`, but for infinities
  stochastic    ///< to a neighbour, with probabilities as the distances: the mean is the number itself
};
std::string_view to_string(Rounding rounding);
Rounding rounding_named(std::string_view name);

/// Each element's number of the format. Integers are taken as f32. `random`: for stochastic rounding numbers in [0, 1)
/// of x's shape (`uniform`); with its 24 bits a number is rounded up with its exact probability if it is a multiple of
/// 2^-24 of the distance of its neighbours, else with the next larger multiple of 2^-24. Gradient: that of x, and 0
/// where the format saturates.
Tensor quantized(const Tensor& x, const Format& format, Rounding rounding = Rounding::nearest,
                 const Tensor& random = {});

/// Sums that are rounded to the nearest number of the format whenever `every` (16, 32 or 64) more terms are added; how
/// is said beside RoundedProduct (core/graph/op.h). Throws for another `every`.
Sums sums_in(const Format& format, int every);

/// Which elements share a scale.
enum class ScaleGroup : std::uint8_t {
  none,     ///< the numbers are taken as they are
  tensor,   ///< all elements
  channel,  ///< those at the same place along `axis`
  block     ///< `block` neighbours along `axis` (OCP MX: 32)
};
std::string_view to_string(ScaleGroup group);
ScaleGroup scale_group_named(std::string_view name);

struct Scaling {
  ScaleGroup group = ScaleGroup::tensor;
  int axis = 1;
  int block = 32;
};

/// The smallest power of two from 2^-126 to 2^127 by which numbers up to `largest` can be divided so that none
/// saturates; 1 for 0, NaN for an infinity or NaN.
Tensor scale_for(const Tensor& largest, const Format& format);
/// The scale of x's elements, with x's shape but size 1 along reduced axes; of a tensor or each channel.
Tensor scale_of(const Tensor& x, const Format& format, const Scaling& scaling);
/// quantized(x / scale) * scale, saturating, by scales that are powers of two from 2^-126 to 2^127. Gradient: that of
/// x, and 0 where an element saturates.
Tensor quantized_by(const Tensor& x, const Tensor& scale, const Format& format, Rounding rounding = Rounding::nearest,
                    const Tensor& random = {});

/// The 8-bit type that holds the format's numbers: e4m3's or e5m2's; none of another.
std::optional<Dtype> stored_dtype(const Format& format);

/// The same with scales from x itself: scale_of's, or for blocks OCP MX's,
/// 2^(floor(log2 largest |x|) - that of the format's largest number), with which the largest element may saturate. An
/// infinity or NaN makes its group NaN, as MX's NaN scale does. Gradient: that of x.
Tensor scaled_quantized(const Tensor& x, const Format& format, const Scaling& scaling,
                        Rounding rounding = Rounding::nearest, const Tensor& random = {});

/// True where scaled_quantized finds an element beyond the format's numbers.
Tensor saturates(const Tensor& x, const Format& format, const Scaling& scaling);

}  // namespace nixie
