// Number formats: every value against a search through the format's own list of numbers, the names' limits as
// published, stochastic rounding by all random numbers, scales, gradients.
#include "nixie/core/ops/formats.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

/// The numbers of a format from 0 up, with one that the exponent's range no longer holds.
std::vector<double> magnitudes(const Format& format) {
  std::vector<double> all;
  const int steps = 1 << format.mantissa_bits;
  for (int m = 0; m < steps; ++m) {
    const double value = m * format.quantum();
    if (format.subnormals || m == 0 || format.exponent_bits == 0) all.push_back(value);
  }
  const double most = std::max(format.largest, -format.lowest);
  for (int e = 1 - format.bias; all.back() <= most; ++e)
    for (int m = 0; m < steps && all.back() <= most; ++m)
      all.push_back(std::ldexp(1.0 + m / static_cast<double>(steps), e));
  return all;
}

/// The rounding that a search finds: independent of the formula's arithmetic.
double searched(double x, const Format& format, const std::vector<double>& all, Rounding rounding, double random) {
  if (std::isnan(x)) return format.nan ? kNaN : 0;
  const double a = std::abs(x), limit = x < 0 ? -format.lowest : format.largest;
  const double beyond = format.saturating ? limit : format.infinities ? kInfinity : format.nan ? kNaN : limit;
  double y = beyond;
  if (std::isfinite(x)) {
    const auto above = std::upper_bound(all.begin(), all.end(), a);
    if (above == all.end()) {
      y = rounding == Rounding::toward_zero ? limit : beyond;
    } else {
      const double high = *above, low = *(above - 1), half = (low + high) / 2;
      // The last bit of a mantissa is that of the multiple of its distance.
      const bool low_is_even = std::fmod(low / (high - low), 2) == 0;
      bool up = a > half || (a == half && !low_is_even);
      if (rounding == Rounding::toward_zero) up = false;
      if (rounding == Rounding::stochastic) up = random < (a - low) / (high - low);
      y = up ? high : low;
      if (y > limit) y = rounding == Rounding::toward_zero ? limit : beyond;
    }
  }
  const double with_sign = std::copysign(y, x);
  return y == 0 && !format.signed_zero ? 0 : with_sign;
}

/// Each number of the format, the middles between neighbours, numbers just beside these, what is beyond the range.
std::vector<float> probes(const std::vector<double>& all) {
  std::vector<float> x;
  for (std::size_t i = 0; i + 1 < all.size(); i += 1 + all.size() / 3000) {
    const auto low = static_cast<float>(all[i]), half = static_cast<float>((all[i] + all[i + 1]) / 2);
    for (const float at : {low, half})
      for (const float next :
           {std::nextafter(at, 0.0F), at, std::nextafter(at, std::numeric_limits<float>::infinity())})
        x.push_back(next);
  }
  for (const double far : {all.back(), 2 * all.back(), 3e38, 1e-45, 1e-40, 1e-30}) x.push_back(static_cast<float>(far));
  x.push_back(std::numeric_limits<float>::infinity());
  const std::size_t positive = x.size();
  for (std::size_t i = 0; i < positive; ++i) x.push_back(-x[i]);
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  return x;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

const char* const kFormats[] = {"f16",  "bf16", "tf32",  "e4m3",  "e5m2",        "e4m3fnuz",    "e5m2fnuz",   "e3m2",
                                "e2m3", "e2m1", "int4",  "int8",  "int16",       "uint4",       "uint8",      "uint16",
                                "e3m4", "e8m1", "e6m15", "e5m21", "binary8p3se", "binary8p4sf", "binary6p2se"};

TEST(Formats, EveryNumberAgainstASearch) {
  for (const char* name : kFormats)
    for (const bool flushes : {false, true}) {
      Format format = format_named(name);
      if (flushes) {
        if (format.exponent_bits == 0) continue;
        format.subnormals = false;
      }
      if (format.mantissa_bits > 16) continue;  // its list is long; e5m21 has a test of its own
      const std::vector<double> all = magnitudes(format);
      const std::vector<float> x = probes(all);
      const auto n = static_cast<std::int64_t>(x.size());
      std::vector<float> u(x.size());
      for (std::size_t i = 0; i < u.size(); ++i) u[i] = static_cast<float>((i * 7919) % 4096) / 4096;
      for (const Rounding rounding : {Rounding::nearest, Rounding::toward_zero, Rounding::stochastic}) {
        // Below the normal numbers a format without subnormals flushes what was rounded, which a search does not.
        if (flushes && rounding != Rounding::toward_zero) continue;
        const Tensor random = rounding == Rounding::stochastic ? Tensor(Array::from(u, {n})) : Tensor{};
        for (const Dtype type : {Dtype::f32, Dtype::f64}) {
          const std::vector<double> y =
              values_of(evaluate(quantized(cast(Array::from(x, {n}), type), format, rounding, random), cpu()));
          int wrong = 0;
          for (std::size_t i = 0; i < x.size() && wrong < 5; ++i) {
            const double expected = searched(x[i], format, all, rounding, u[i]);
            if (!same(y[i], expected)) {
              ++wrong;
              ADD_FAILURE() << name << " " << to_string(rounding) << " " << to_string(type) << ": " << x[i] << " gives "
                            << y[i] << ", expected " << expected << ", random " << u[i];
            }
          }
        }
      }
    }
}

// OCP's 8-bit and MX specifications, IEEE 754, ml_dtypes' finfo, P3109's tables.
TEST(Formats, LimitsAsPublished) {
  const struct {
    const char* name;
    double largest, lowest, quantum;
    int bits;
  } rows[] = {
      {"f16", 65504, -65504, 0x1p-24, 16},
      {"bf16", 0x1.fep127, -0x1.fep127, 0x1p-133, 16},
      {"e4m3", 448, -448, 0x1p-9, 8},
      {"e5m2", 57344, -57344, 0x1p-16, 8},
      {"e4m3fnuz", 240, -240, 0x1p-10, 8},
      {"e5m2fnuz", 57344, -57344, 0x1p-17, 8},
      {"e3m2", 28, -28, 0x1p-4, 6},
      {"e2m3", 7.5, -7.5, 0x1p-3, 6},
      {"e2m1", 6, -6, 0.5, 4},
      {"int8", 127, -128, 1, 8},
      {"uint8", 255, 0, 1, 8},
      {"binary8p4sf", 240, -240, 0x1p-10, 8},
      {"binary8p3se", 49152, -49152, 0x1p-17, 8},
  };
  for (const auto& row : rows) {
    const Format format = format_named(row.name);
    EXPECT_EQ(format.largest, row.largest) << row.name;
    EXPECT_EQ(format.lowest, row.lowest) << row.name;
    EXPECT_EQ(format.quantum(), row.quantum) << row.name;
    EXPECT_EQ(format.bits(), row.bits) << row.name;
  }
}

// The formats that are stored types, too.
TEST(Formats, StoredTypes) {
  std::mt19937 random(3);
  std::vector<float> x(40000);
  for (float& each : x) each = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  const Tensor values = Array::from(x, {40000});
  for (const auto& [name, type] :
       {std::pair{"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"e4m3", Dtype::f8e4m3}, {"e5m2", Dtype::f8e5m2}}) {
    const std::vector<double> ours = values_of(evaluate(quantized(values, format_named(name)), cpu()));
    const std::vector<double> stored = values_of(evaluate(cast(cast(values, type), Dtype::f32), cpu()));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same(ours[i], stored[i])) << name << " " << x[i];
  }
}

// As many of all 2^24 random numbers round up as the distance says.
TEST(Formats, StochasticProbabilityIsExact) {
  constexpr std::int64_t kCount = 1 << 24;
  const Tensor random = cast(arange(kCount), Dtype::f32) * 0x1p-24;
  const struct {
    const char* format;
    float x;
    double low, high;
  } rows[] = {{"e4m3", 1.03125F, 1, 1.125}, {"e4m3", -0x1p-12F, 0, -0x1p-9},    {"f16", 1 + 0x1p-23F, 1, 1 + 0x1p-10},
              {"bf16", 3e38F, 0, 0},        {"bf16", 0x1.8p-134F, 0, 0x1p-133}, {"int8", 2.3F, 2, 3}};
  for (const auto& row : rows) {
    const Format format = format_named(row.format);
    const double ulp = format.exponent_bits == 0 ? 1 : std::ldexp(1.0, std::ilogb(row.x) - format.mantissa_bits);
    const double low = row.high == 0 ? std::floor(row.x / ulp) * ulp : row.low,
                 high = row.high == 0 ? low + ulp : row.high;
    const Tensor y = quantized(broadcast_to(row.x, {kCount}), format, Rounding::stochastic, random);
    const std::vector<double> counts = values_of(evaluate(
        stack({sum(cast(y == high, Dtype::i32), {0}, false), sum(cast(y == low, Dtype::i32), {0}, false)}), cpu()));
    const double share = std::ceil((row.x - low) / (high - low) * kCount);
    EXPECT_EQ(counts[0], share) << row.format << " " << row.x;
    EXPECT_EQ(counts[0] + counts[1], kCount) << row.format << " " << row.x;
  }
}

TEST(Formats, Scales) {
  const Tensor x = Array::from(std::vector<float>{1000, -3, 0.001F, 0, 0, 0, 5e-7F, 2e-7F}, {2, 4});
  const auto scaled = [&](ScaleGroup group, int axis, int block) {
    return values_of(
        evaluate(scaled_quantized(x, format_named("e2m1"), {.group = group, .axis = axis, .block = block}), cpu()));
  };
  using Values = std::vector<double>;
  // The scale of 1000 is 2^8, as 2^7 * 6 is below it: 3.9 is 4. A block's is 2^(9 - 2): 7.8 saturates at 6.
  EXPECT_EQ(scaled(ScaleGroup::tensor, 0, 0), (Values{1024, -0.0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(scaled(ScaleGroup::block, 0, 2)[0], 768);
  const Values rows = scaled(ScaleGroup::channel, 0, 0);
  EXPECT_EQ(rows[0], 1024);
  EXPECT_EQ(rows[6], std::ldexp(4, -23));                 // 5e-7 = 4.19 2^-23
  const Values blocks = scaled(ScaleGroup::block, 1, 3);  // 4 = 3 + 1 padded
  EXPECT_EQ(blocks[6], std::ldexp(4, -23));
  EXPECT_EQ(blocks[7], std::ldexp(6, -25));  // 6.7 2^-25 alone, with the scale 2^-25: the nearest below 6.7 is 6
  const Values per_element = scaled(ScaleGroup::block, 1, 1);
  EXPECT_EQ(per_element[2], std::ldexp(4, -12));  // 0.001 = 4.096 2^-12
  const Tensor bad = Array::from(std::vector<float>{1, std::numeric_limits<float>::infinity(), 2, 3}, {2, 2});
  const Values spoilt = values_of(
      evaluate(scaled_quantized(bad, format_named("e4m3"), {.group = ScaleGroup::channel, .axis = 0}), cpu()));
  EXPECT_TRUE(std::isnan(spoilt[0]) && std::isnan(spoilt[1]));
  EXPECT_EQ(spoilt[2], 2);
}

// A number is divided exactly, by the smallest and the largest scale, too.
TEST(Formats, ScalesOfTheWholeRange) {
  for (const int exponent : {-126, -125, 0, 126, 127})
    for (const double size : {1.0, 3.3, 500.0, 0.02}) {
      const double x = static_cast<float>(std::ldexp(size, std::min(exponent, 118)));
      const double expected = values_of(
          quantized(Tensor(Array::from(std::vector<double>{std::ldexp(x, -exponent)}, {})), format_named("e4m3")))[0];
      const Tensor found =
          quantized_by(Array::from(std::vector<float>{static_cast<float>(x)}, {}),
                       Array::from(std::vector<float>{std::ldexp(1.0F, exponent)}, {}), format_named("e4m3"));
      EXPECT_EQ(values_of(found)[0], std::ldexp(std::min(expected, 448.0), exponent)) << exponent << " " << size;
    }
}

TEST(Formats, HalvesKeepTheirType) {
  const Tensor x = cast(Array::from(std::vector<float>{1.06F, 500, -3.3F}, {3}), Dtype::bf16);
  for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
    const Tensor random = rounding == Rounding::stochastic ? uniform({3}, 5) : Tensor{};
    EXPECT_EQ(quantized(x, format_named("e4m3"), rounding, random).dtype(), Dtype::bf16);
  }
  // The scale of 2^-20 in e4m3 is 2^-28, which no f16 is.
  const Tensor small = cast(Array::from(std::vector<float>{0x1p-20F, -0x1.8p-21F, 0}, {3}), Dtype::f16);
  for (const ScaleGroup group : {ScaleGroup::tensor, ScaleGroup::channel, ScaleGroup::block}) {
    const Tensor y = scaled_quantized(small, format_named("e4m3"), {.group = group, .axis = 0});
    EXPECT_EQ(y.dtype(), Dtype::f16);
    EXPECT_EQ(values_of(y), values_of(small)) << to_string(group);
  }
}

// The results of ml_dtypes and gfloat (record_formats.py): other people's programs.
TEST(Formats, RecordedRoundings) {
  const char* other = std::getenv("NIXIE_RECORDED_FORMATS");  // a longer record
  std::ifstream file(other ? other : NIXIE_SOURCE_DIR "/tests/core/fixtures/formats.tsv");
  std::string line, name, result;
  int saturating = 0;
  std::uint32_t x = 0, drawn = 0;
  struct Rows {
    std::vector<float> x, random;
    std::vector<std::string> results;
  };
  std::map<std::tuple<std::string, int, std::string>, Rows> groups;
  while (std::getline(file, line)) {
    std::istringstream row(line);
    row >> name >> saturating >> std::hex >> x;
    for (const std::uint32_t bits : {x, x ^ 0x80000000U}) {
      row >> drawn;
      for (const char* rounding : {"nearest", "nearest", "toward_zero", "stochastic"}) {
        row >> result;
        if (result == "-") continue;
        Rows& rows = groups[{name, saturating, rounding}];
        rows.x.push_back(std::bit_cast<float>(bits));
        rows.random.push_back(static_cast<float>(drawn) * 0x1p-24F);
        rows.results.push_back(result);
      }
    }
    ASSERT_TRUE(row) << line;
  }
  ASSERT_GE(groups.size(), 40U);
  for (const auto& [key, rows] : groups) {
    Format format = format_named(std::get<0>(key));
    format.saturating = std::get<1>(key) == 1;
    const Rounding mode = rounding_named(std::get<2>(key));
    const auto n = std::ssize(rows.x);
    const Tensor random = mode == Rounding::stochastic ? Tensor(Array::from(rows.random, {n})) : Tensor{};
    const std::vector<double> y = values_of(quantized(Array::from(rows.x, {n}), format, mode, random));
    for (std::size_t i = 0; i < rows.x.size(); ++i) {
      const double expected =
          rows.results[i] == "nan"
              ? kNaN
              : std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(rows.results[i], nullptr, 16)));
      EXPECT_TRUE(same(y[i], expected)) << format.name << " " << std::get<2>(key) << " " << rows.x[i] << " random "
                                        << rows.random[i] << ": " << y[i] << ", recorded " << expected;
    }
  }
}

// Straight through, and 0 where the format saturates.
TEST(Formats, Gradients) {
  const Variable x("x", Array::from(std::vector<float>{0.3F, -500, 448, 449, 1e30F}, {5}));
  const auto slopes = [&](const Tensor& y) {
    return values_of(
        evaluate(gradients(sum(y * Array::from(std::vector<float>{1, 2, 3, 4, 5}, {5})), {Tensor(x)})[0], cpu()));
  };
  using Values = std::vector<double>;
  EXPECT_EQ(slopes(quantized(x, format_named("e4m3"))), (Values{1, 0, 3, 0, 0}));
  EXPECT_EQ(slopes(quantized(x, format_named("e4m3"), Rounding::stochastic, uniform({5}, 1))), (Values{1, 0, 3, 0, 0}));
  EXPECT_EQ(slopes(quantized(x, format_named("f16"))), (Values{1, 2, 3, 4, 5}));
}

TEST(Formats, Refusals) {
  const Tensor x = ones({2});
  const std::pair<std::function<void()>, const char*> rows[] = {
      {[] { format_named("e4m33"); }, "format e4m33: expected 2 to 8 bits of exponent and 1 to 21 of mantissa"},
      {[] { format_named("fp8"); }, "format is \"fp8\", expected one of f16, bf16, tf32, e4m3"},
      {[] { Format::integer(40); }, "fixed point of 40 bits"},
      {[&] { quantized(x, format_named("e4m3"), Rounding::stochastic); }, "give it random numbers"},
      {[&] { quantized(x, format_named("e4m3"), Rounding::nearest, x); }, "which takes no random numbers"},
      {[&] { quantized(x, format_named("e4m3"), Rounding::stochastic, ones({3})); }, "random numbers of [3] for [2]"},
      {[] { rounding_named("up"); }, "rounding is \"up\", expected one of nearest, toward_zero, stochastic"},
  };
  for (const auto& [act, text] : rows) EXPECT_THAT(error_of(act), HasSubstr(text));
}

}  // namespace
}  // namespace nixie
