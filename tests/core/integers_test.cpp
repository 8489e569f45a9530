// Every integer type at its ends, by every family of ops, against C++ arithmetic of 128 bits.
#include <cstring>

#include "nixie/core/ops/elementwise.h"

#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

using Wide = __int128;
using Numbers = std::vector<Wide>;

constexpr Dtype kIntegers[] = {Dtype::i64, Dtype::i32, Dtype::i16, Dtype::i8,
                               Dtype::u64, Dtype::u32, Dtype::u16, Dtype::u8};
constexpr Dtype kFloats[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8e4m3, Dtype::f8e5m2};

int bits(Dtype dtype) { return static_cast<int>(8 * size_of(dtype)); }
Wide lowest(Dtype dtype) { return is_unsigned(dtype) ? 0 : -(Wide{1} << (bits(dtype) - 1)); }
Wide highest(Dtype dtype) { return (Wide{1} << (is_unsigned(dtype) ? bits(dtype) : bits(dtype) - 1)) - 1; }
Wide last_bits(Wide x, Dtype dtype) {
  const Wide last = x & ((Wide{1} << bits(dtype)) - 1);
  return last > highest(dtype) ? last - (Wide{1} << bits(dtype)) : last;
}
Wide saturated(Wide x, Dtype dtype) { return std::clamp(x, lowest(dtype), highest(dtype)); }

// The machine is little-endian.
Array array_of(const Numbers& numbers, Dtype dtype) {
  Array array(dtype, {std::ssize(numbers)});
  for (std::size_t i = 0; i < numbers.size(); ++i)
    std::memcpy(array.bytes() + static_cast<std::int64_t>(i) * size_of(dtype), &numbers[i],
                static_cast<std::size_t>(size_of(dtype)));
  return array;
}
Numbers numbers_of(const Array& array) {
  Numbers numbers;
  const bool is_bool = array.dtype() == Dtype::boolean;
  for (std::int64_t i = 0; i < array.size(); ++i) {
    Wide number = 0;
    std::memcpy(&number, array.bytes() + i * size_of(array.dtype()), static_cast<std::size_t>(size_of(array.dtype())));
    numbers.push_back(is_bool ? number : last_bits(number, array.dtype()));
  }
  return numbers;
}

std::string text(const Numbers& numbers) {
  std::string all;
  for (const Wide x : numbers) all += fmt::format("{} ", x);
  return all;
}

// The same stored, and as a double in the same kernel.
void expect_numbers(const Tensor& value, const Numbers& expected, Dtype dtype, const std::string& what) {
  const std::vector<Tensor> found = evaluate({value, cast(value, Dtype::f64)}, testing::cpu());
  EXPECT_EQ(value.dtype(), dtype) << what;
  EXPECT_EQ(text(numbers_of(found[0].array())), text(expected)) << what;
  std::vector<double> doubles;
  for (const Wide x : expected) doubles.push_back(static_cast<double>(x));
  EXPECT_EQ(found[1].to_vector<double>(), doubles) << what;
}

Numbers ends(Dtype dtype) {
  const Wide low = lowest(dtype), high = highest(dtype);
  Numbers numbers{0, 1, 2, 3, 7, high / 2, high / 2 + 1, high - 1, high};
  if (low < 0) numbers.insert(numbers.end(), {-1, -2, -7, low + 1, low});
  return numbers;
}

struct Pairs {
  Numbers a = {}, b = {};
};
Pairs pairs_of(const Numbers& numbers) {
  Pairs pairs;
  for (const Wide a : numbers)
    for (const Wide b : numbers) pairs.a.push_back(a), pairs.b.push_back(b);
  return pairs;
}

Wide floored(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
Wide power(Wide a, Wide b, Dtype dtype) {
  Wide y = 1;
  for (; b > 0; b >>= 1, a = last_bits(a * a, dtype))
    if (b & 1) y = last_bits(y * a, dtype);
  return y;
}

TEST(Integers, ArithmeticWrapsAround) {
  using Op = Tensor (*)(const Tensor&, const Tensor&);
  using Reference = Wide (*)(Wide a, Wide b, Dtype dtype);
  const struct {
    const char* name;
    Op op;
    Reference expected;
    bool compares = false;
  } kOps[] = {
      {"+", [](const Tensor& a, const Tensor& b) { return a + b; }, [](Wide a, Wide b, Dtype) { return a + b; }},
      {"-", [](const Tensor& a, const Tensor& b) { return a - b; }, [](Wide a, Wide b, Dtype) { return a - b; }},
      {"*", [](const Tensor& a, const Tensor& b) { return a * b; },
       [](Wide a, Wide b, Dtype d) { return last_bits(a, d) * last_bits(b, d); }},
      {"floor_divide", floor_divide, [](Wide a, Wide b, Dtype) { return b == 0 ? Wide{0} : floored(a, b); }},
      {"trunc_divide", trunc_divide, [](Wide a, Wide b, Dtype) { return b == 0 ? Wide{0} : a / b; }},
      {"remainder", remainder, [](Wide a, Wide b, Dtype) { return b == 0 ? Wide{0} : a - floored(a, b) * b; }},
      {"fmod", fmod, [](Wide a, Wide b, Dtype) { return b == 0 ? Wide{0} : a % b; }},
      {"pow", [](const Tensor& a, const Tensor& b) { return pow(a, maximum(b, 0)); },
       [](Wide a, Wide b, Dtype d) { return power(a, std::max<Wide>(b, 0), d); }},
      {"minimum", minimum, [](Wide a, Wide b, Dtype) { return std::min(a, b); }},
      {"maximum", maximum, [](Wide a, Wide b, Dtype) { return std::max(a, b); }},
      {"&", [](const Tensor& a, const Tensor& b) { return a & b; }, [](Wide a, Wide b, Dtype) { return a & b; }},
      {"|", [](const Tensor& a, const Tensor& b) { return a | b; }, [](Wide a, Wide b, Dtype) { return a | b; }},
      {"^", [](const Tensor& a, const Tensor& b) { return a ^ b; }, [](Wide a, Wide b, Dtype) { return a ^ b; }},
      {"<<", [](const Tensor& a, const Tensor& b) { return a << b; },
       [](Wide a, Wide b, Dtype d) { return b < 0 || b >= bits(d) ? Wide{0} : a * (Wide{1} << b); }},
      {">>", [](const Tensor& a, const Tensor& b) { return a >> b; },
       [](Wide a, Wide b, Dtype d) { return a >> (b < 0 || b >= bits(d) ? bits(d) : b); }},
      {"where", [](const Tensor& a, const Tensor& b) { return where(a, b, 3); },
       [](Wide a, Wide b, Dtype) { return a != 0 ? b : 3; }},
      {"==", [](const Tensor& a, const Tensor& b) { return a == b; },
       [](Wide a, Wide b, Dtype) { return Wide{a == b}; }, true},
      {"!=", [](const Tensor& a, const Tensor& b) { return a != b; },
       [](Wide a, Wide b, Dtype) { return Wide{a != b}; }, true},
      {"<", [](const Tensor& a, const Tensor& b) { return a < b; }, [](Wide a, Wide b, Dtype) { return Wide{a < b}; },
       true},
      {"<=", [](const Tensor& a, const Tensor& b) { return a <= b; },
       [](Wide a, Wide b, Dtype) { return Wide{a <= b}; }, true},
      {"&&", [](const Tensor& a, const Tensor& b) { return a && b; },
       [](Wide a, Wide b, Dtype) { return Wide{a != 0 && b != 0}; }, true},
      {"neg", [](const Tensor& a, const Tensor&) { return -a; }, [](Wide a, Wide, Dtype) { return -a; }},
      {"abs", [](const Tensor& a, const Tensor&) { return abs(a); },
       [](Wide a, Wide, Dtype) { return a < 0 ? -a : a; }},
      {"sign", [](const Tensor& a, const Tensor&) { return sign(a); },
       [](Wide a, Wide, Dtype) { return Wide{(a > 0) - (a < 0)}; }},
      {"~", [](const Tensor& a, const Tensor&) { return ~a; }, [](Wide a, Wide, Dtype) { return ~a; }},
      {"a number", [](const Tensor& a, const Tensor&) { return a * 3 - 100 + 37; },
       [](Wide a, Wide, Dtype) { return a * 3 - 63; }},
      {"clip", [](const Tensor& a, const Tensor&) { return clip(a, 2, 100); },
       [](Wide a, Wide, Dtype) { return std::clamp<Wide>(a, 2, 100); }},
      {"!", [](const Tensor& a, const Tensor&) { return !a; }, [](Wide a, Wide, Dtype) { return Wide{a == 0}; }, true},
      {"is_finite", [](const Tensor& a, const Tensor&) { return is_finite(a); },
       [](Wide, Wide, Dtype) { return Wide{1}; }, true},
  };
  for (const Dtype dtype : kIntegers) {
    const Pairs x = pairs_of(ends(dtype));
    const Tensor a = array_of(x.a, dtype), b = array_of(x.b, dtype);
    for (const auto& row : kOps) {
      Numbers expected;
      for (std::size_t i = 0; i < x.a.size(); ++i) {
        const Wide y = row.expected(x.a[i], x.b[i], dtype);
        expected.push_back(row.compares ? y : last_bits(y, dtype));
      }
      expect_numbers(row.op(a, b), expected, row.compares ? Dtype::boolean : dtype,
                     fmt::format("{} of {}", row.name, dtype));
    }
  }
}

TEST(Integers, CastsSaturateAndWrapTakesTheLastBits) {
  for (const Dtype from : kIntegers)
    for (const Dtype to : kIntegers) {
      const std::string what = fmt::format("{} to {}", from, to);
      const Numbers x = ends(from);
      Numbers nearest, last;
      for (const Wide number : x) nearest.push_back(saturated(number, to)), last.push_back(last_bits(number, to));
      expect_numbers(cast(array_of(x, from), to), nearest, to, what);
      expect_numbers(cast(Tensor(array_of(x, from)) * 1, to) * 1, nearest, to, what + " between others");
      expect_numbers(wrapped(array_of(x, from), to), last, to, what + " wrapped");
      EXPECT_EQ(text(numbers_of(array_of(x, from).to(to))), text(nearest)) << what << " by Array::to";
    }
  expect_numbers(wrapped(Tensor{2.9, -2.9}, Dtype::u16), {2, 65534}, Dtype::u16, "fractions wrapped");
  EXPECT_FAULT(usage, "wrapped: the type is f32, expected an integer type",
               wrapped(zeros({2}, Dtype::i32), Dtype::f32));
}

TEST(Integers, BecomeTheNearestFloats) {
  for (const Dtype from : kIntegers)
    for (const Dtype to : kFloats) {
      Numbers x = ends(from);
      for (const int power : {8, 16, 24, 31, 53, 60, 62, 63})  // half way between floats, and beside
        for (const int digits : {4, 8, 11, 24, 53})
          for (const Wide beside : {-1, 0, 1})
            if (const Wide number = (Wide{1} << power) + (Wide{1} << std::max(power - digits, 0)) + beside;
                number <= highest(from))
              x.push_back(number);
      const Array array = array_of(x, from);
      const Tensor found = evaluate(cast(array, to), testing::cpu());
      std::vector<double> expected;
      for (const Wide number : x)
        expected.push_back(visit_dtype(to, [&](auto type) {
          using T = decltype(type);
          if constexpr (std::is_floating_point_v<T>) return static_cast<double>(static_cast<T>(number));
          if (number > highest(Dtype::i64)) return convert<double>(convert<T>(static_cast<std::uint64_t>(number)));
          return convert<double>(convert<T>(static_cast<std::int64_t>(number)));
        }));
      EXPECT_EQ(found.to_vector<double>(), expected) << from << " to " << to;
      EXPECT_EQ(array.to(to).to_vector<double>(), expected) << from << " to " << to << " by Array::to";
    }
}

TEST(Integers, FloatsAreCutAndSaturate) {
  const std::vector<double> values{0,      -0.0,       0.9,     -0.9,       1.5,          -1.5,    254.9,
                                   255.5,  32767.9,    65535.9, -32769,     2147483647.0, 0x1p31,  0x1p32 - 1,
                                   0x1p32, 0x1p53 + 2, 0x1p63,  0x1.fffp62, 0x1.8p63,     -0x1p63, 0x1.fffp63,
                                   0x1p64, 1e30,       -1e30,   INFINITY,   -INFINITY,    NAN};
  for (const Dtype from : {Dtype::f64, Dtype::f32})
    for (const Dtype to : kIntegers) {
      const Array x = Array::from(values, {std::ssize(values)}).to(from);
      Numbers expected;
      for (const double value : x.to_vector<double>()) {
        const double bound = std::clamp(value, -0x1p100, 0x1p100);
        expected.push_back(std::isnan(value) ? 0 : saturated(static_cast<Wide>(bound), to));
      }
      expect_numbers(cast(x, to), expected, to, fmt::format("{} to {}", from, to));
      EXPECT_EQ(text(numbers_of(x.to(to))), text(expected)) << from << " to " << to << " by Array::to";
    }
}

TEST(Integers, RowsAreReducedScannedSortedAndGathered) {
  for (const Dtype dtype : kIntegers) {
    Numbers x = ends(dtype);
    std::rotate(x.begin(), x.begin() + 3, x.end());
    const Tensor t = array_of(x, dtype);
    const Dtype sums = sum_dtype(dtype);
    Numbers sum_so_far, product_so_far, most_so_far, least_so_far, order(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto so_far = [&](const Numbers& all, auto op) { return i == 0 ? x[0] : op(all.back(), x[i]); };
      sum_so_far.push_back(last_bits(so_far(sum_so_far, [](Wide a, Wide b) { return a + b; }), sums));
      product_so_far.push_back(last_bits(so_far(product_so_far, [](Wide a, Wide b) { return a * b; }), sums));
      most_so_far.push_back(so_far(most_so_far, [](Wide a, Wide b) { return std::max(a, b); }));
      least_so_far.push_back(so_far(least_so_far, [](Wide a, Wide b) { return std::min(a, b); }));
      order[i] = static_cast<Wide>(i);
    }
    std::ranges::stable_sort(order, {}, [&](Wide i) { return x[static_cast<std::size_t>(i)]; });
    Numbers sorted = x;
    std::ranges::sort(sorted);
    const Numbers most(sorted.rbegin(), sorted.rbegin() + 3), reversed(sorted.rbegin(), sorted.rend());
    const Tensor twice = array_of({0, 1, 0, 1, 1}, Dtype::i32), few = array_of({x[0], x[1], x[2], x[3], x[4]}, dtype);
    const Array places = array_of({5, 0, std::ssize(x) - 1}, dtype);
    Numbers found;
    for (const Wide number : {5, 0, static_cast<int>(x.size()) - 1})
      found.push_back(x[static_cast<std::size_t>(number)]);
    const auto best = [&](const Numbers& all) { return Numbers{std::ranges::find(x, all.back()) - x.begin()}; };
    const struct {
      const char* name;
      Tensor value;
      Numbers expected;
      Dtype dtype;
    } rows[] = {
        {"sum", sum(t), {sum_so_far.back()}, sums},
        {"sum over an axis", sum(reshape(t, {1, -1, 1}), {1}), {sum_so_far.back()}, sums},
        {"prod", prod(t), {product_so_far.back()}, sums},
        {"max", max(t), {most_so_far.back()}, dtype},
        {"min", min(t), {least_so_far.back()}, dtype},
        {"max of one", max(slice(t, {Index::range(1, 2)}), {0}), {x[1]}, dtype},
        {"max of nothing", max(zeros({0}, dtype)), {lowest(dtype)}, dtype},
        {"min of nothing", min(zeros({0}, dtype)), {highest(dtype)}, dtype},
        {"argmax", argmax(t), best(most_so_far), Dtype::i32},
        {"argmin", argmin(t), best(least_so_far), Dtype::i32},
        {"any", any(t), {1}, Dtype::boolean},
        {"all", all(t), {0}, Dtype::boolean},
        {"count_nonzero", count_nonzero(t), {std::ssize(x) - 1}, Dtype::i64},
        {"cumsum", cumsum(t, 0), sum_so_far, sums},
        {"cumprod", cumprod(t, 0), product_so_far, sums},
        {"cummax", cummax(t, 0), most_so_far, dtype},
        {"cummin", cummin(t, 0), least_so_far, dtype},
        {"sort", sort(t, 0), sorted, dtype},
        {"sort descending", sort(t, 0, true), reversed, dtype},
        {"argsort", argsort(t, 0), order, Dtype::i32},
        {"topk", topk(t, 3).values, most, dtype},
        {"searchsorted",
         searchsorted(sort(t, 0), array_of({sorted.back(), sorted[0]}, dtype), true),
         {std::ssize(x), 1},
         Dtype::i32},
        {"take", take(t, places), found, dtype},
        {"one_hot", one_hot(slice(Tensor(places), {Index::range(1, 2)}), 3, dtype), {1, 0, 0}, dtype},
        {"scatter", scatter(few, twice, few), {x[2], x[4], x[2], x[3], x[4]}, dtype},
        {"scatter_max",
         scatter_max(zeros({2}, dtype), twice, few),
         {std::max({Wide{0}, x[0], x[2]}), std::max({Wide{0}, x[1], x[3], x[4]})},
         dtype},
        {"scatter_min",
         scatter_min(full({2}, 100, dtype), twice, few),
         {std::min({Wide{100}, x[0], x[2]}), std::min({Wide{100}, x[1], x[3], x[4]})},
         dtype},
        {"pad",
         pad(slice(t, {Index::range(0, 1)}), {1}, {1}, static_cast<double>(lowest(dtype))),
         {lowest(dtype), x[0], lowest(dtype)},
         dtype},
        {"pad with the largest", pad(slice(t, {Index::range(0, 1)}), {1}, {0}, 1e30), {highest(dtype), x[0]}, dtype},
        {"concat and flip", flip(concat({t, t}, 0), {0}),
         [&] {
           Numbers all(x.rbegin(), x.rend());
           all.insert(all.end(), x.rbegin(), x.rend());
           return all;
         }(),
         dtype},
        {"full", full({2}, static_cast<double>(highest(dtype)), dtype), {highest(dtype), highest(dtype)}, dtype},
        {"transpose",
         reshape(transpose(reshape(slice(t, {Index::range(0, 8)}), {2, 4})), {-1}),
         {x[0], x[4], x[1], x[5], x[2], x[6], x[3], x[7]},
         dtype},
    };
    for (const auto& row : rows)
      expect_numbers(row.value, row.expected, row.dtype, fmt::format("{} of {}", row.name, dtype));
  }
}

TEST(Integers, LongSumsAndExtremes) {
  const std::int64_t n = 100000;
  for (const Dtype dtype : kIntegers) {
    const Tensor x =
        where(coordinate({3, n}, 1) == n - 5, full({}, static_cast<double>(highest(dtype)), dtype), full({}, 7, dtype));
    const Wide total = last_bits(highest(dtype) + 7 * (n - 1), sum_dtype(dtype));
    expect_numbers(sum(x, {1}, false), Numbers(3, total), sum_dtype(dtype), fmt::format("{}", dtype));
    expect_numbers(max(x, {1}, false), Numbers(3, highest(dtype)), dtype, fmt::format("{}", dtype));
    expect_numbers(argmax(x, {1}, false), Numbers(3, n - 5), Dtype::i32, fmt::format("{}", dtype));
    expect_numbers(min(x, {0, 1}, false), {7}, dtype, fmt::format("{}", dtype));
  }
}

}  // namespace
}  // namespace nixie
