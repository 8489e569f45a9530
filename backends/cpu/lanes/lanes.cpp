// Arithmetic, comparisons, logic, bits and casts on lanes.
#include "nixie/backends/cpu/lanes/lanes.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "nixie/backends/cpu/lanes/lane_loop.h"

namespace nixie::cpu {
namespace {

// Signed overflow wraps, as on a GPU.
template <class T>
constexpr std::make_unsigned_t<T> bits(T x) {
  return static_cast<std::make_unsigned_t<T>>(x);
}
template <class U>
constexpr std::make_signed_t<U> wrap(U x) {
  return static_cast<std::make_signed_t<U>>(x);
}

template <class T>
T integer_power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  auto result = bits(T{1}), square = bits(base);
  for (; exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return wrap(result);
}

template <class T>
LaneFunction integer_arithmetic(Primitive primitive) {
  constexpr auto kZero = bits(T{0});
  constexpr auto kBits = bits(T{8 * sizeof(T)});
  static const Lookup kTable[] = {
      {Primitive::neg, unary<T>([](T x) { return wrap(kZero - bits(x)); })},
      {Primitive::abs, unary<T>([](T x) { return x < 0 ? wrap(kZero - bits(x)) : x; })},
      {Primitive::add, binary<T>([](T x, T y) { return wrap(bits(x) + bits(y)); })},
      {Primitive::sub, binary<T>([](T x, T y) { return wrap(bits(x) - bits(y)); })},
      {Primitive::mul, binary<T>([](T x, T y) { return wrap(bits(x) * bits(y)); })},
      {Primitive::div, binary<T>([](T x, T y) {
         return y == 0 ? 0 : y == -1 ? wrap(kZero - bits(x)) : x / y;
       })},  // the lowest number by -1 would trap
      {Primitive::mod, binary<T>([](T x, T y) { return y == 0 || y == -1 ? 0 : x % y; })},
      {Primitive::pow, binary<T>([](T x, T y) { return integer_power(x, y); })},
      {Primitive::min, binary<T>([](T x, T y) { return x < y ? x : y; })},
      {Primitive::max, binary<T>([](T x, T y) { return x > y ? x : y; })},
      {Primitive::is_finite, unary<T>([](T) { return 1; })},
      {Primitive::is_nan, unary<T>([](T) { return 0; })},
      {Primitive::floor, unary<T>([](T x) { return x; })},
      {Primitive::ceil, unary<T>([](T x) { return x; })},
      {Primitive::round, unary<T>([](T x) { return x; })},
      {Primitive::trunc, unary<T>([](T x) { return x; })},
      {Primitive::bit_and, binary<T>([](T x, T y) { return x & y; })},
      {Primitive::bit_or, binary<T>([](T x, T y) { return x | y; })},
      {Primitive::bit_xor, binary<T>([](T x, T y) { return x ^ y; })},
      {Primitive::bit_not, unary<T>([](T x) { return ~x; })},
      {Primitive::shift_left, binary<T>([](T x, T y) {
         return bits(y) < kBits ? wrap(bits(x) << (bits(y) & (kBits - 1))) : 0;
       })},  // shifts by the type's width and more push every bit out
      {Primitive::shift_right, binary<T>([](T x, T y) { return x >> (bits(y) < kBits ? bits(y) : kBits - 1); })},
  };
  return look_up(kTable, primitive);
}

template <class T>
LaneFunction floating_arithmetic(Primitive primitive) {
  static const Lookup kTable[] = {
      {Primitive::neg, unary<T>([](T x) { return -x; })},
      {Primitive::abs, unary<T>([](T x) { return std::abs(x); })},
      {Primitive::add, combine_lanes<Primitive::add, T>},
      {Primitive::sub, combine_lanes<Primitive::sub, T>},
      {Primitive::mul, combine_lanes<Primitive::mul, T>},
      {Primitive::div, binary<T>([](T x, T y) { return x / y; })},
      {Primitive::mod, binary<T>([](T x, T y) { return std::fmod(x, y); })},
      {Primitive::min, combine_lanes<Primitive::min, T>},
      {Primitive::max, combine_lanes<Primitive::max, T>},
      {Primitive::is_finite, unary<T>([](T x) { return std::abs(x) <= std::numeric_limits<T>::max() ? T{1} : T{0}; })},
      {Primitive::is_nan, unary<T>([](T x) { return x != x ? T{1} : T{0}; })},
  };
  return look_up(kTable, primitive);
}

template <class T>
void select_lanes(const void* a, const void* b, const void* c, void* out, std::int64_t n) {
  const T* __restrict condition = static_cast<const T*>(a);
  const T* __restrict yes = static_cast<const T*>(b);
  const T* __restrict no = static_cast<const T*>(c);
  T* __restrict result = static_cast<T*>(out);
  n = n / kLaneBlock * kLaneBlock;
  for (std::int64_t i = 0; i < n; ++i) {
    const T x = yes[i], y = no[i];  // read both, so that the choice is a blend
    result[i] = condition[i] != T{0} ? x : y;
  }
}

template <class T>
LaneFunction comparison(Primitive primitive) {
  static const Lookup kTable[] = {
      {Primitive::equal, binary<T>([](T x, T y) { return x == y ? T{1} : T{0}; })},
      {Primitive::not_equal, binary<T>([](T x, T y) { return x != y ? T{1} : T{0}; })},
      {Primitive::less, binary<T>([](T x, T y) { return x < y ? T{1} : T{0}; })},
      {Primitive::less_equal, binary<T>([](T x, T y) { return x <= y ? T{1} : T{0}; })},
      {Primitive::logical_and, binary<T>([](T x, T y) { return ((x != T{0}) & (y != T{0})) ? T{1} : T{0}; })},
      {Primitive::logical_or, binary<T>([](T x, T y) { return ((x != T{0}) | (y != T{0})) ? T{1} : T{0}; })},
      {Primitive::logical_not, unary<T>([](T x) { return x == T{0} ? T{1} : T{0}; })},
      {Primitive::select, select_lanes<T>},
  };
  return look_up(kTable, primitive);
}

template <class From, class To>
To cast_lane(From x) {
  if constexpr (std::is_same_v<To, std::int64_t> && std::is_floating_point_v<From>) {
    const double wide = static_cast<double>(x);
    constexpr double kBound = 0x1p63;
    return wide != wide     ? 0
           : wide >= kBound ? std::numeric_limits<To>::max()
           : wide < -kBound ? std::numeric_limits<To>::min()
                            : static_cast<To>(wide);
  } else if constexpr (std::is_same_v<To, std::int32_t> && !std::is_same_v<From, std::int32_t>) {
    const double wide = x != x ? 0.0 : static_cast<double>(x);
    const double low = wide < -2147483648.0 ? -2147483648.0 : wide;
    return static_cast<To>(low > 2147483647.0 ? 2147483647.0 : low);  // a C++ conversion truncates
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void cast_lanes(const void* a, const void*, const void*, void* out, std::int64_t n) {
  const From* __restrict x = static_cast<const From*>(a);
  To* __restrict y = static_cast<To*>(out);
  n = n / kLaneBlock * kLaneBlock;
  for (std::int64_t i = 0; i < n; ++i) y[i] = cast_lane<From, To>(x[i]);
}

template <class To>
LaneFunction cast_function(Dtype from) {
  return visit_compute_dtype(from, []<class From>(From) -> LaneFunction { return cast_lanes<From, To>; });
}

}  // namespace

LaneFunction arithmetic_function(Primitive primitive, Dtype type) {
  const bool compares = primitive >= Primitive::equal && primitive <= Primitive::select;
  return visit_compute_dtype(type, [&]<class T>(T) {
    if (compares) return comparison<T>(primitive);
    if constexpr (std::is_floating_point_v<T>)
      return floating_arithmetic<T>(primitive);
    else
      return integer_arithmetic<T>(primitive);
  });
}

LaneFunction lane_function(Primitive primitive, Dtype type, Dtype from) {
  if (primitive == Primitive::cast)
    return visit_compute_dtype(type, [&]<class To>(To) { return cast_function<To>(from); });
  const LaneFunction arithmetic = arithmetic_function(primitive, type);
  return arithmetic ? arithmetic : math_function(primitive, type);
}

}  // namespace nixie::cpu
