// Roots, exponentials, logarithms, trigonometry and rounding on lanes.
#include <bit>
#include <cmath>
#include <limits>

#include "nixie/backends/cpu/lanes/lane_loop.h"

#include <unsupported/Eigen/SpecialFunctions>

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

// Eigen's exponential stops at about the smallest normal number, here as on every instruction set it goes on to 0. That
// is a pass of its own over the tile: inside the first loop it keeps each block from staying in registers.
template <class T>
void exp_lanes(const void* a, const void*, const void*, void* out, std::int64_t n) {
  constexpr T kLowest = sizeof(T) == 4 ? static_cast<T>(-87.33) : static_cast<T>(-708.3);
  const T* __restrict x = static_cast<const T*>(a);
  T* __restrict y = static_cast<T*>(out);
  for (std::int64_t i = 0; i < n; i += kLaneBlock) Eigen::Map<Block<T>>(y + i) = block(x + i).exp();
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] < kLowest ? T{0} : y[i];
}

// Functions that exist once for both types: exactly rounded ones vectorise as plain loops, rare ones call libm.
template <class T>
LaneFunction common(Primitive primitive) {
  switch (primitive) {
    case Primitive::sqrt:
      return unary<T>([](T x) { return std::sqrt(x); });
    case Primitive::rsqrt:
      return unary<T>([](T x) { return T{1} / std::sqrt(x); });
    case Primitive::floor:
      return unary<T>([](T x) { return std::floor(x); });
    case Primitive::ceil:
      return unary<T>([](T x) { return std::ceil(x); });
    case Primitive::round:
      return unary<T>([](T x) { return std::nearbyint(x); });
    case Primitive::trunc:
      return unary<T>([](T x) { return std::trunc(x); });
    case Primitive::exp:
      return exp_lanes<T>;
    case Primitive::log:
      return block_unary<T>([](const auto& x) { return x.log(); });
    case Primitive::exp2:
      return exp2_lanes<T>;
    case Primitive::asin:
      return unary<T>([](T x) { return std::asin(x); });
    case Primitive::acos:
      return unary<T>([](T x) { return std::acos(x); });
    case Primitive::atan:
      return unary<T>([](T x) { return std::atan(x); });
    case Primitive::atan2:
      return binary<T>([](T y, T x) { return std::atan2(y, x); });
    case Primitive::sinh:
      return unary<T>([](T x) { return std::sinh(x); });
    case Primitive::cosh:
      return unary<T>([](T x) { return std::cosh(x); });
    default:
      return nullptr;
  }
}

LaneFunction float_math(Primitive primitive) {
  using T = float;
  switch (primitive) {
    case Primitive::tan:
      return block_unary<T>([](const auto& x) { return Block<T>(x.sin() / x.cos()); });
    case Primitive::sin:
      return block_unary<T>([](const auto& x) { return x.sin(); });
    case Primitive::cos:
      return block_unary<T>([](const auto& x) { return x.cos(); });
    case Primitive::tanh:
      return block_unary<T>([](const auto& x) { return x.tanh(); });
    case Primitive::log2:
      return block_unary<T>([](const auto& x) { return x.log2(); });
    case Primitive::log1p:
      return block_unary<T>([](const auto& x) { return x.log1p(); });
    case Primitive::expm1:
      return block_unary<T>([](const auto& x) { return x.expm1(); });
    case Primitive::erf:
      return block_unary<T>([](const auto& x) { return x.erf(); });
    case Primitive::pow:
      return block_binary<T>([](const auto& x, const auto& y) { return x.pow(y); });
    default:
      return common<T>(primitive);
  }
}

LaneFunction double_math(Primitive primitive) {
  using T = double;
  switch (primitive) {
    case Primitive::tan:
      return unary<T>([](T x) { return std::tan(x); });
    case Primitive::sin:
      return unary<T>([](T x) { return std::sin(x); });
    case Primitive::cos:
      return unary<T>([](T x) { return std::cos(x); });
    case Primitive::tanh:
      return unary<T>([](T x) { return std::tanh(x); });
    case Primitive::log2:
      return unary<T>([](T x) { return std::log2(x); });
    case Primitive::log1p:
      return unary<T>([](T x) { return std::log1p(x); });
    case Primitive::expm1:
      return unary<T>([](T x) { return std::expm1(x); });
    case Primitive::erf:
      return unary<T>([](T x) { return std::erf(x); });
    case Primitive::pow:
      return binary<T>([](T x, T y) { return std::pow(x, y); });
    default:
      return common<T>(primitive);
  }
}

}  // namespace

LaneFunction math_function(Primitive primitive, Dtype type) {
  if (type == Dtype::f32) return float_math(primitive);
  return type == Dtype::f64 ? double_math(primitive) : nullptr;
}

}  // namespace nixie::cpu
