// Roots, exponentials, logarithms, trigonometry and rounding on lanes.
#include <bit>
#include <cmath>
#include <limits>

#include "nixie/backends/cpu/lanes/lane_loop.h"

namespace nixie::cpu {
namespace {

// 2^n for whole n that keeps it a normal number.
template <class T>
T power_of_two(T n) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  constexpr int kMantissa = std::numeric_limits<T>::digits - 1, kBias = std::numeric_limits<T>::max_exponent - 1;
  return std::bit_cast<T>((static_cast<Bits>(n) + kBias) << kMantissa);
}

// 2^x = 2^n e^(f ln 2): taking the integer part out first keeps the error of the product small.
template <class T>
void exp2_lanes(const void* a, const void*, const void*, void* out, std::int64_t n) {
  constexpr T kFar = sizeof(T) == 4 ? T{200} : T{1200};  // beyond it the result is 0 or infinite
  const T* x = static_cast<const T*>(a);
  for (std::int64_t i = 0; i < n; i += kLaneBlock) {
    T clamped[kLaneBlock], whole[kLaneBlock], rest[kLaneBlock];
    for (std::int64_t lane = 0; lane < kLaneBlock; ++lane) {
      const T low = x[i + lane] < -kFar ? -kFar : x[i + lane];
      clamped[lane] = low > kFar ? kFar : low;
      const T rounded = std::nearbyint(clamped[lane]);
      whole[lane] = rounded == rounded ? rounded : T{0};
      rest[lane] = (clamped[lane] - whole[lane]) * static_cast<T>(0.693147180559945309417232);
    }
    Block<T> power = block(rest).exp();
    for (std::int64_t lane = 0; lane < kLaneBlock; ++lane) {  // in two steps, since 2^n alone may leave the range
      const T half = std::trunc(whole[lane] * T{0.5});
      power[lane] *= power_of_two(half);
      power[lane] *= power_of_two(whole[lane] - half);
    }
    Eigen::Map<Block<T>>(static_cast<T*>(out) + i) = power;
  }
}

// a b + c, in one rounding where the processor has an instruction for it.
inline float multiply_add(float a, float b, float c) {
#ifdef __FMA__
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r - 1 by Cephes' polynomial.
struct ReducedExp {
  float n, expm1;
};
inline ReducedExp reduced_exp(float x) {
  const float rounded = std::nearbyint(x * 1.44269504f), n = rounded == rounded ? rounded : 0.0f;
  const float r = multiply_add(n, 2.12194440e-4f, multiply_add(n, -0.693359375f, x));  // ln 2 in two parts
  float p = 1.9875691500e-4f;
  p = multiply_add(p, r, 1.3981999507e-3f);
  p = multiply_add(p, r, 8.3334519073e-3f);
  p = multiply_add(p, r, 4.1665795894e-2f);
  p = multiply_add(p, r, 1.6666665459e-1f);
  p = multiply_add(p, r, 5.0000001201e-1f);
  return {n, multiply_add(p, r * r, r)};
}

inline float clamped(float x, float low, float high) {
  const float above = x < low ? low : x;
  return above > high ? high : above;
}

// e^x = 2^n e^r, 2^n in two steps since it alone may leave the range of floats.
inline float exp_float(float x) {
  const auto [n, expm1] = reduced_exp(clamped(x, -150.0f, 130.0f));
  const float half = std::trunc(n * 0.5f);
  return (expm1 + 1.0f) * power_of_two(half) * power_of_two(n - half);
}

// e^x - 1 = 2^n (e^r - 1) + (2^n - 1), taken at half the size: 2^127 is a float, 2^128 is none.
inline float expm1_float(float x) {
  const auto [n, expm1] = reduced_exp(clamped(x, -30.0f, 88.8f));
  const float half = power_of_two(n - 1.0f);
  return x == 0.0f ? x : n == 0.0f ? expm1 : multiply_add(half, expm1, half - 0.5f) * 2.0f;  // -0 as it is
}

// Cephes' polynomial below 0.625, where the exponential would lose bits, and 1 - 2 / (e^2|x| + 1) above.
inline float tanh_float(float x) {
  const float z = x * x, size = std::abs(x);
  float p = -5.70498872745e-3f;
  p = multiply_add(p, z, 2.06390887954e-2f);
  p = multiply_add(p, z, -5.37397155531e-2f);
  p = multiply_add(p, z, 1.33314422036e-1f);
  p = multiply_add(p, z, -3.33332819422e-1f);
  const auto [n, expm1] = reduced_exp(clamped(size + size, 0.0f, 20.0f));
  const float large = 1.0f - 2.0f / (multiply_add(expm1, power_of_two(n), power_of_two(n)) + 1.0f);
  return std::copysign(size < 0.625f ? multiply_add(p * z, size, size) : large, x);
}

// Eigen's exponential of doubles stops at about the smallest normal number; below it libm goes on.
void exp_double_lanes(const void* a, const void*, const void*, void* out, std::int64_t n) {
  constexpr double kLow = -708.3;
  const double* x = static_cast<const double*>(a);
  double* y = static_cast<double*>(out);
  for (std::int64_t i = 0; i < n; i += kLaneBlock) {
    Eigen::Map<Block<double>>(y + i) = block(x + i).exp();
    if (!(block(x + i) < kLow).any()) continue;
    for (std::int64_t lane = i; lane < i + kLaneBlock; ++lane)
      if (x[lane] < kLow) y[lane] = std::exp(x[lane]);
  }
}

// Eigen's logarithms take subnormal numbers for the smallest normal one: they are scaled first.
template <class Log>
LaneFunction log_lanes(Log) {
  return [](const void* a, const void*, const void*, void* out, std::int64_t n) {
    const float* x = static_cast<const float*>(a);
    for (std::int64_t i = 0; i < n; i += kLaneBlock) {
      Block<float> scaled, shift;
      for (std::int64_t lane = 0; lane < kLaneBlock; ++lane) {
        const bool subnormal = x[i + lane] < std::numeric_limits<float>::min();
        scaled[lane] = subnormal ? x[i + lane] * 0x1p23f : x[i + lane];
        shift[lane] = subnormal ? Log::kOfScale : 0.0f;
      }
      Eigen::Map<Block<float>>(static_cast<float*>(out) + i) = Log{}(scaled)-shift;
    }
  };
}
struct NaturalLog {
  static constexpr float kOfScale = 15.942385152878742f;
  auto operator()(const Block<float>& x) const { return x.log(); }
};
struct BinaryLog {
  static constexpr float kOfScale = 23.0f;
  auto operator()(const Block<float>& x) const { return x.log2(); }
};

// log u for u = 1 + x as it is rounded, and what the rounding left out over u.
void log1p_lanes(const void* a, const void*, const void*, void* out, std::int64_t n) {
  const float* x = static_cast<const float*>(a);
  for (std::int64_t i = 0; i < n; i += kLaneBlock) {
    Block<float> u, rest;
    for (std::int64_t lane = 0; lane < kLaneBlock; ++lane) {
      const float v = x[i + lane], sum = 1.0f + v, back = sum - 1.0f;
      const float error = ((1.0f - (sum - back)) + (v - back)) / sum;
      u[lane] = sum;
      rest[lane] = std::abs(error) <= 1.0f ? error : 0.0f;  // at -1 and infinity there is none
    }
    Block<float> y = u.log() + rest;
    for (std::int64_t lane = 0; lane < kLaneBlock; ++lane) y[lane] = x[i + lane] == 0.0f ? x[i + lane] : y[lane];
    Eigen::Map<Block<float>>(static_cast<float*>(out) + i) = y;
  }
}

// x + x P(x^2), for |x| below 0.85; least squares in doubles.
inline float erf_near_zero(float x) {
  const float z = x * x;
  float p = -6.3153927e-4f;
  p = multiply_add(p, z, 5.0511477e-3f);
  p = multiply_add(p, z, -2.6802586e-2f);
  p = multiply_add(p, z, 1.1282719e-1f);
  p = multiply_add(p, z, -3.7612572e-1f);
  p = multiply_add(p, z, 1.2837917e-1f);
  return multiply_add(p, x, x);
}

// That, and 1 - e^Q(|x|) above, Q near log erfc; within 1 ulp.
inline float erf_float(float x) {
  const float size = clamped(std::abs(x), 0.0f, 4.0f);  // beyond it the result is 1
  float q = -1.9827255e-5f;
  q = multiply_add(q, size, 4.2003888e-4f);
  q = multiply_add(q, size, -4.1024182e-3f);
  q = multiply_add(q, size, 2.4942202e-2f);
  q = multiply_add(q, size, -1.0801187e-1f);
  q = multiply_add(q, size, -6.3358504e-1f);
  q = multiply_add(q, size, -1.1294e0f);
  q = multiply_add(q, size, 1.5141064e-4f);
  return size < 0.85f ? erf_near_zero(x) : x == x ? std::copysign(1.0f - exp_float(q), x) : x;
}

// 1 - erf near 0; else e^(-x^2) times t P(t) with t = 1 / (1 + 0.35 |x|), P from Chebyshev's nodes, within 6 ulp. What
// rounding the square left out is multiplied in: of a large exponent it would be a hundred ulp.
inline float erfc_float(float x) {
  const float size = clamped(std::abs(x), 0.0f, 10.1f);  // beyond it the result is 0 or 2
  const float t = 1.0f / multiply_add(0.35f, size, 1.0f), square = size * size,
              rest = multiply_add(size, size, -square);
  float p = 3.6829030e-2f;
  p = multiply_add(p, t, -1.5052888e-1f);
  p = multiply_add(p, t, 1.6206077e-1f);
  p = multiply_add(p, t, -2.3353867e-3f);
  p = multiply_add(p, t, 6.6362479e-2f);
  p = multiply_add(p, t, 1.5687870e-1f);
  p = multiply_add(p, t, 1.4753004e-1f);
  p = multiply_add(p, t, 1.8866626e-1f);
  p = multiply_add(p, t, 1.9704877e-1f);
  p = multiply_add(p, t, 1.9748827e-1f);
  const float tail = exp_float(-square) * (p * t * (1.0f - rest));
  return size < 0.5f ? 1.0f - erf_near_zero(x) : x < 0.0f ? 2.0f - tail : tail;
}

// Eigen's power does not tell the signs of zeros and infinities apart, neither of bases nor of results.
void pow_lanes(const void* a, const void* b, const void*, void* out, std::int64_t n) {
  const float *x = static_cast<const float*>(a), *y = static_cast<const float*>(b);
  float* power = static_cast<float*>(out);
  for (std::int64_t i = 0; i < n; i += kLaneBlock) {
    const Block<float> base = block(x + i), exponent = block(y + i);
    const Block<float> result = base.pow(exponent);
    Eigen::Map<Block<float>>(power + i) = result;
    const auto is_signed_end = [](float x) { return x == 0 || std::isinf(x); };
    if (!(base * 0.0f != 0.0f || base == 0.0f || (base < 0.0f && (result * 0.0f != 0.0f || result == 0.0f))).any())
      continue;
    for (std::int64_t lane = 0; lane < kLaneBlock; ++lane)
      if (is_signed_end(base[lane]) || (base[lane] < 0 && is_signed_end(result[lane])))
        power[i + lane] = std::pow(base[lane], exponent[lane]);
  }
}

// The exponent's bits alone are a power of two; those of subnormal numbers are 0, those of NaN infinity.
template <class T>
T binade_of(T x) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<T>(std::bit_cast<Bits>(x) & std::bit_cast<Bits>(std::numeric_limits<T>::infinity()));
}

// Functions that exist once for both types: exactly rounded ones vectorise as plain loops, rare ones call libm.
template <class T>
LaneFunction common(Primitive primitive) {
  static const Lookup kTable[] = {
      {Primitive::sqrt, unary<T>([](T x) { return std::sqrt(x); })},
      {Primitive::rsqrt, unary<T>([](T x) { return T{1} / std::sqrt(x); })},
      {Primitive::floor, unary<T>([](T x) { return std::floor(x); })},
      {Primitive::ceil, unary<T>([](T x) { return std::ceil(x); })},
      {Primitive::round, unary<T>([](T x) { return std::nearbyint(x); })},
      {Primitive::trunc, unary<T>([](T x) { return std::trunc(x); })},
      {Primitive::binade, unary<T>([](T x) { return binade_of(x); })},
      {Primitive::copysign, binary<T>([](T x, T y) { return std::copysign(x, y); })},
      {Primitive::exp2, exp2_lanes<T>},
      {Primitive::asin, unary<T>([](T x) { return std::asin(x); })},
      {Primitive::acos, unary<T>([](T x) { return std::acos(x); })},
      {Primitive::atan, unary<T>([](T x) { return std::atan(x); })},
      {Primitive::atan2, binary<T>([](T y, T x) { return std::atan2(y, x); })},
      {Primitive::sinh, unary<T>([](T x) { return std::sinh(x); })},
      {Primitive::cosh, unary<T>([](T x) { return std::cosh(x); })},
  };
  return look_up(kTable, primitive);
}

LaneFunction float_math(Primitive primitive) {
  using T = float;
  static const Lookup kTable[] = {
      {Primitive::tan, unary<T>([](T x) { return std::tan(x); })},
      {Primitive::sin, block_unary<T>([](const auto& x) { return x.sin(); })},
      {Primitive::cos, block_unary<T>([](const auto& x) { return x.cos(); })},
      {Primitive::exp, unary<T>([](T x) { return exp_float(x); })},
      {Primitive::expm1, unary<T>([](T x) { return expm1_float(x); })},
      {Primitive::tanh, unary<T>([](T x) { return tanh_float(x); })},
      {Primitive::log, log_lanes(NaturalLog{})},
      {Primitive::log2, log_lanes(BinaryLog{})},
      {Primitive::log1p, log1p_lanes},
      {Primitive::erf, unary<T>([](T x) { return erf_float(x); })},
      {Primitive::erfc, unary<T>([](T x) { return erfc_float(x); })},
      {Primitive::round_f16, unary<T>([](T x) { return static_cast<T>(Half(x)); })},
      {Primitive::round_bf16, unary<T>([](T x) { return static_cast<T>(Bfloat16(x)); })},
      {Primitive::round_f8e4m3, unary<T>([](T x) { return static_cast<T>(F8e4m3(x)); })},
      {Primitive::round_f8e5m2, unary<T>([](T x) { return static_cast<T>(F8e5m2(x)); })},
      {Primitive::pow, pow_lanes},
  };
  const LaneFunction own = look_up(kTable, primitive);
  return own ? own : common<T>(primitive);
}

LaneFunction double_math(Primitive primitive) {
  using T = double;
  static const Lookup kTable[] = {
      {Primitive::round_f16, unary<T>([](T x) { return static_cast<T>(static_cast<float>(Half(round_to_odd(x)))); })},
      {Primitive::round_bf16,
       unary<T>([](T x) { return static_cast<T>(static_cast<float>(Bfloat16(round_to_odd(x)))); })},
      {Primitive::round_f8e4m3,
       unary<T>([](T x) { return static_cast<T>(static_cast<float>(F8e4m3(round_to_odd(x)))); })},
      {Primitive::round_f8e5m2,
       unary<T>([](T x) { return static_cast<T>(static_cast<float>(F8e5m2(round_to_odd(x)))); })},
      {Primitive::tan, unary<T>([](T x) { return std::tan(x); })},
      {Primitive::sin, unary<T>([](T x) { return std::sin(x); })},
      {Primitive::cos, unary<T>([](T x) { return std::cos(x); })},
      {Primitive::exp, exp_double_lanes},
      {Primitive::log,
       unary<T>([](T x) { return std::log(x); })},  // Eigen's takes subnormal numbers as the least normal one
      {Primitive::tanh, unary<T>([](T x) { return std::tanh(x); })},
      {Primitive::log2, unary<T>([](T x) { return std::log2(x); })},
      {Primitive::log1p, unary<T>([](T x) { return std::log1p(x); })},
      {Primitive::expm1, unary<T>([](T x) { return std::expm1(x); })},
      {Primitive::erf, unary<T>([](T x) { return std::erf(x); })},
      {Primitive::erfc, unary<T>([](T x) { return std::erfc(x); })},
      {Primitive::pow, binary<T>([](T x, T y) { return std::pow(x, y); })},
  };
  const LaneFunction own = look_up(kTable, primitive);
  return own ? own : common<T>(primitive);
}

}  // namespace

LaneFunction math_function(Primitive primitive, Dtype type) {
  if (type == Dtype::f32) return float_math(primitive);
  return type == Dtype::f64 ? double_math(primitive) : nullptr;
}

}  // namespace nixie::cpu
