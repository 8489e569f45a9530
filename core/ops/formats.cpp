// The formats by name, and the ops that round to them.
#include "nixie/core/ops/formats.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/operands.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/ops/rounding.h"

namespace nixie {
namespace {

constexpr int kMostMantissaBits = 21;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

/// A float without infinities whose `reserved` largest codes are no finite numbers.
Format finite_float(std::string name, int exponent_bits, int mantissa_bits, int bias, int reserved, bool nan) {
  Format format{.name = std::move(name), .exponent_bits = exponent_bits, .mantissa_bits = mantissa_bits, .bias = bias};
  const int code = (1 << (exponent_bits + mantissa_bits)) - 1 - reserved;
  const int exponent = code >> mantissa_bits, mantissa = code - (exponent << mantissa_bits);
  format.largest = (1 + mantissa * power_of_two(-mantissa_bits)) * power_of_two(exponent - bias);
  format.lowest = -format.largest;
  format.infinities = false;
  format.nan = nan;
  format.saturating = true;
  return format;
}

Format without_negative_zero(Format format) {
  format.signed_zero = false;
  return format;
}

Format named(Format format, std::string name) {
  format.name = std::move(name);
  return format;
}

Format saturating(Format format) {
  format.saturating = true;
  return format;
}

const std::vector<Format>& named_formats() {
  static const std::vector<Format> formats = {
      named(Format::ieee(5, 10), "f16"),
      named(Format::ieee(8, 7), "bf16"),
      named(Format::ieee(8, 10), "tf32"),
      finite_float("e4m3", 4, 3, 7, 1, true),
      named(saturating(Format::ieee(5, 2)), "e5m2"),
      without_negative_zero(finite_float("e4m3fnuz", 4, 3, 8, 0, true)),
      without_negative_zero(finite_float("e5m2fnuz", 5, 2, 16, 0, true)),
      finite_float("e3m2", 3, 2, 3, 0, false),
      finite_float("e2m3", 2, 3, 1, 0, false),
      finite_float("e2m1", 2, 1, 1, 0, false),
      Format::integer(4),
      Format::integer(8),
      Format::integer(16),
      Format::integer(4, false),
      Format::integer(8, false),
      Format::integer(16, false),
  };
  return formats;
}

/// The numbers that fill the pattern's `#`s, one each; empty if the text does not fit.
std::vector<int> numbers_in(std::string_view text, std::string_view pattern) {
  std::vector<int> numbers;
  for (const char c : pattern) {
    if (c != '#') {
      if (text.empty() || text[0] != c) return {};
      text.remove_prefix(1);
      continue;
    }
    int number = 0, digits = 0;
    for (; !text.empty() && text[0] >= '0' && text[0] <= '9' && digits < 3; ++digits, text.remove_prefix(1))
      number = 10 * number + (text[0] - '0');
    if (digits == 0) return {};
    numbers.push_back(number);
  }
  return text.empty() ? numbers : std::vector<int>{};
}

void check_mantissa(const Format& format, const char* who) {
  check(format.mantissa_bits >= 1 && format.mantissa_bits <= kMostMantissaBits, who, ": format ", format.name, " has ",
        format.mantissa_bits, " bits of mantissa, expected 1 to ", kMostMantissaBits);
}

/// The gradient of x where it does not saturate.
Tensor passed(const Tensor& g, const Tensor& x, const Format& format) {
  return format.saturating ? where(logical_and(x >= format.lowest, x <= format.largest), g, 0) : g;
}

/// The op of a key, made when it is first asked for. Equal roundings are one object, so that those of a value are
/// computed once.
const Elementwise& kept_op(const std::string& key, const std::function<Elementwise()>& make) {
  static std::mutex mutex;
  static std::map<std::string, Elementwise> ops;
  const std::lock_guard lock(mutex);
  const auto found = ops.find(key);
  return found != ops.end() ? found->second : ops.emplace(key, make()).first->second;
}

/// The op of a format, a rounding and a type of arithmetic.
const Elementwise& rounding_op(const Format& format, Rounding rounding, bool in_double) {
  const int precision = in_double ? 53 : 24;
  return kept_op(fmt::format("{} {} {}", format_key(format), to_string(rounding), precision), [&] {
    const std::string name = fmt::format("{} {}", format.name, to_string(rounding));
    const ElementwiseTraits traits{.result = ResultType::floating, .is_listed = false};
    return rounding == Rounding::stochastic
               ? Elementwise(
                     name, [=](Symbol x, Symbol random) { return rounded(x, format, rounding, precision, &random); },
                     [=](const Tensor& g, const Tensor&, const Tensor& x, const Tensor&) {
                       return Gradients{passed(g, x, format), {}};
                     },
                     traits)
               : Elementwise(
                     name, [=](Symbol x) { return rounded(x, format, rounding, precision, nullptr); },
                     [=](const Tensor& g, const Tensor&, const Tensor& x) { return Gradients{passed(g, x, format)}; },
                     traits);
  });
}

/// The op (sum, group) of sums_in.
const Elementwise& merging_op(const Format& format) {
  return kept_op(format_key(format) + " sum", [&] {
    return Elementwise(format.name, [=](Symbol sum, Symbol group) { return nearest_f32(sum + group, format); },
                       NoGradient{}, {.is_listed = false});
  });
}

/// The numbers in the format's stored type, to whose nearest a cast rounds in few instructions; as quantized has them
/// where there is none.
Tensor rounded_numbers(const Tensor& x, const Format& format, Rounding rounding, const Tensor& random) {
  const std::optional<Dtype> stored = x.dtype() == Dtype::f64 ? std::nullopt : stored_dtype(format);
  if (!stored || rounding != Rounding::nearest || random.has_value()) {
    const Tensor numbers = quantized(x, format, rounding, random);
    return stored ? cast(numbers, *stored) : numbers;
  }
  const Elementwise clipped{
      "clipped",
      [](auto v) { return v; },
      [=](const Tensor& g, const Tensor&, const Tensor& v) { return Gradients{passed(g, v, format)}; },
      {.is_listed = false}};
  return cast(clipped(floating(x)), *stored);
}

/// An f32 has no 2^-127 among its normal numbers, so the smallest scale is 2^-126.
Tensor limited(const Tensor& scale, const Tensor& largest) {
  return stop_gradient(where(is_finite(largest), clip(scale, power_of_two(-126), power_of_two(127)), kNaN));
}

/// In f32 beside halves, which have no such small scales.
Tensor largest_of(const Tensor& x, const Axes& axes) {
  const Tensor largest = max(abs(x), axes);
  return x.dtype() == Dtype::f64 ? largest : cast(largest, Dtype::f32);
}

/// The blocks along an axis of x, the last one padded with zeros: [.., blocks, block, ..].
class Blocks {
 public:
  Blocks(const Tensor& x, const Scaling& scaling) : axis_(x.shape().normal_axis(scaling.axis)), block_(scaling.block) {
    check(block_ >= 1, "scaled_quantized: block is ", block_, ", expected at least 1");
    size_ = x.shape()[axis_];
    values_ = of(x);
  }

  Tensor of(const Tensor& x) const {
    const auto at = static_cast<std::size_t>(axis_);
    const std::int64_t count = (size_ + block_ - 1) / block_;
    std::vector<std::int64_t> none(static_cast<std::size_t>(x.rank()), 0), more = none, sizes = x.shape().sizes();
    more[at] = count * block_ - size_;
    sizes[at] = count;
    sizes.insert(sizes.begin() + axis_ + 1, block_);
    return reshape(more[at] == 0 ? x : pad(x, none, more), sizes);
  }
  /// The inverse.
  Tensor joined(const Tensor& x) const {
    const auto at = static_cast<std::size_t>(axis_);
    std::vector<std::int64_t> sizes = x.shape().sizes();
    sizes[at] *= sizes[at + 1];
    sizes.erase(sizes.begin() + axis_ + 1);
    const Tensor whole = reshape(x, sizes);
    return sizes[at] == size_ ? whole : slice(whole, Index::along(axis_, Index::range(0, size_)));
  }
  /// OCP MX's: of the largest element, whose binade becomes that of the format's largest number.
  Tensor scale(const Format& format) const {
    const Tensor largest = largest_of(values_, {axis_ + 1});
    return limited(binade(largest) * power_of_two(-std::ilogb(format.largest)), largest);
  }

 private:
  int axis_;
  std::int64_t block_, size_ = 0;
  Tensor values_;
};

Axes other_axes(const Tensor& x, int axis) {
  Axes axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) axes.push_back(i);
  return axes;
}

template <class Enum, std::size_t n>
Enum value_named(const std::string_view (&names)[n], std::string_view name, const char* what) {
  std::string known;
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  fail(Fault::usage, what, " is \"", name, "\", expected one of ", known);
}

constexpr std::string_view kRoundings[] = {"nearest", "toward_zero", "stochastic"};
constexpr std::string_view kGroups[] = {"none", "tensor", "channel", "block"};

}  // namespace

double Format::quantum() const { return power_of_two(1 - bias - mantissa_bits); }

int Format::bits() const { return (lowest < 0 ? 1 : 0) + exponent_bits + mantissa_bits; }

Format Format::ieee(int exponent_bits, int mantissa_bits) {
  check(exponent_bits >= 2 && exponent_bits <= 8 && mantissa_bits >= 1 && mantissa_bits <= kMostMantissaBits,
        "format e", exponent_bits, "m", mantissa_bits, ": expected 2 to 8 bits of exponent and 1 to ",
        kMostMantissaBits, " of mantissa");
  const int bias = (1 << (exponent_bits - 1)) - 1;
  Format format = finite_float(fmt::format("e{}m{}", exponent_bits, mantissa_bits), exponent_bits, mantissa_bits, bias,
                               1 << mantissa_bits, true);
  format.infinities = true;
  format.saturating = false;
  return format;
}

Format Format::fixed_point(int bits, int fraction_bits) {
  check(bits >= 2 && bits <= 16 && fraction_bits >= -64 && fraction_bits <= 64, "fixed point of ", bits, " bits, ",
        fraction_bits, " of fraction: expected 2 to 16 bits and -64 to 64 of fraction");
  const double unit = power_of_two(-fraction_bits), half = power_of_two(bits - 1);
  return {.name = fmt::format("fixed{}.{}", bits, fraction_bits),
          .exponent_bits = 0,
          .mantissa_bits = bits - 1,
          .bias = 1 - (bits - 1 - fraction_bits),
          .largest = (half - 1) * unit,
          .lowest = -half * unit,
          .infinities = false,
          .nan = false,
          .saturating = true,
          .signed_zero = false};
}

Format Format::integer(int bits, bool is_signed) {
  Format format = fixed_point(bits, 0);
  if (is_signed) return named(format, fmt::format("int{}", bits));
  format.mantissa_bits = bits;
  format.bias = 1 - bits;
  format.largest = power_of_two(bits) - 1;
  format.lowest = 0;
  return named(format, fmt::format("uint{}", bits));
}

Format Format::p3109(int k, int p, bool extended) {
  check(k >= 3 && k <= 15 && p >= 2 && p < k && k - p <= 8, "format binary", k, "p", p,
        ": expected 3 to 15 bits, 2 of precision or more, and at most 8 of exponent");
  // The code of -0 is NaN; the largest positive one is infinity where there is one.
  Format format = without_negative_zero(finite_float(fmt::format("binary{}p{}s{}", k, p, extended ? 'e' : 'f'), k - p,
                                                     p - 1, 1 << (k - p - 1), extended ? 1 : 0, true));
  format.infinities = extended;
  format.saturating = !extended;
  return format;
}

Format format_named(std::string_view name) {
  for (const Format& format : named_formats())
    if (format.name == name) return format;
  if (const auto n = numbers_in(name, "e#m#"); n.size() == 2) return Format::ieee(n[0], n[1]);
  for (const bool extended : {false, true})
    if (const auto n = numbers_in(name, extended ? "binary#p#se" : "binary#p#sf"); n.size() == 2)
      return Format::p3109(n[0], n[1], extended);
  fail(Fault::usage, "format is \"", name, "\", expected one of ", fmt::format("{}", fmt::join(format_names(), ", ")),
       ", e<E>m<M> or binary<k>p<p>s<e|f>");
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format& format : named_formats()) names.push_back(format.name);
  return names;
}

std::string_view to_string(Rounding rounding) { return kRoundings[static_cast<std::size_t>(rounding)]; }
Rounding rounding_named(std::string_view name) { return value_named<Rounding>(kRoundings, name, "rounding"); }
std::string_view to_string(ScaleGroup group) { return kGroups[static_cast<std::size_t>(group)]; }
ScaleGroup scale_group_named(std::string_view name) { return value_named<ScaleGroup>(kGroups, name, "scale"); }

Tensor quantized(const Tensor& x, const Format& format, Rounding rounding, const Tensor& random) {
  check_mantissa(format, "quantized");
  const Elementwise& op = rounding_op(format, rounding, x.dtype() == Dtype::f64);
  check(random.has_value() == (rounding == Rounding::stochastic), "quantized: rounding is ", to_string(rounding),
        random.has_value() ? ", which takes no random numbers"
                           : "; give it random numbers: uniform(shape, stream, step)");
  if (!random.has_value()) return op(floating(x));
  check(random.shape() == x.shape(), "quantized: random numbers of ", random.shape(), " for ", x.shape(),
        ", expected one for each element");
  // The rounding's own type decides the arithmetic's: f32 numbers beside halves would widen the result.
  return retype(op(floating(x), random), floating(x).dtype());
}

Sums sums_in(const Format& format, int every) {
  check(every == 16 || every == 32 || every == 64, "sums: every is ", every, ", expected 16, 32 or 64");
  check_mantissa(format, "sums");
  return {.every = every, .merge = merging_op(format).shared_info()};
}

Tensor scale_for(const Tensor& largest, const Format& format) {
  const Tensor below = binade(largest * (1 / format.largest));
  const Tensor scale = where(below * format.largest < largest, below * 2, below);
  return limited(where(largest == 0, 1.0, scale), largest);
}

Tensor scale_of(const Tensor& x, const Format& format, const Scaling& scaling) {
  check(scaling.group == ScaleGroup::tensor || scaling.group == ScaleGroup::channel,
        "scale_of: the scale is that of each ", to_string(scaling.group), ", expected tensor or channel");
  const int kept = scaling.group == ScaleGroup::channel ? x.shape().normal_axis(scaling.axis) : -1;
  return scale_for(largest_of(x, other_axes(x, kept)), format);
}

Tensor quantized_by(const Tensor& x, const Tensor& scale, const Format& format, Rounding rounding,
                    const Tensor& random) {
  // By the inverse, which is exact: a division of each element would take longer than its memory.
  const Tensor numbers = rounded_numbers(x * (1 / scale), saturating(format), rounding, random);
  return retype(is_f8(numbers.dtype()) ? scaled(numbers, scale) : numbers * scale, floating(x).dtype());
}

std::optional<Dtype> stored_dtype(const Format& format) {
  if (format == format_named("e4m3")) return Dtype::f8e4m3;
  if (format == format_named("e5m2")) return Dtype::f8e5m2;
  return {};
}

Tensor scaled_quantized(const Tensor& x, const Format& format, const Scaling& scaling, Rounding rounding,
                        const Tensor& random) {
  if (scaling.group == ScaleGroup::none)
    return retype(rounded_numbers(x, format, rounding, random), floating(x).dtype());
  if (scaling.group != ScaleGroup::block)
    return quantized_by(x, scale_of(x, format, scaling), format, rounding, random);
  const Blocks blocks(x, scaling);
  return blocks.joined(quantized_by(blocks.of(x), blocks.scale(format), format, rounding,
                                    random.has_value() ? blocks.of(random) : Tensor{}));
}

Tensor saturates(const Tensor& x, const Format& format, const Scaling& scaling) {
  const auto beyond = [&](const Tensor& values, const Tensor& scale) {
    return logical_or(values > format.largest * scale, values < format.lowest * scale);
  };
  if (scaling.group == ScaleGroup::none) return beyond(x, 1.0);
  if (scaling.group != ScaleGroup::block) return beyond(x, scale_of(x, format, scaling));
  const Blocks blocks(x, scaling);
  return blocks.joined(beyond(blocks.of(x), blocks.scale(format)));
}

}  // namespace nixie
