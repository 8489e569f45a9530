// The scalar functions that generated code calls, one overload per compute type. core/graph/instruction.h defines them.
#pragma once

#include "types.cuh"

namespace op {

// Integers wrap around, and division by zero gives 0. `U` is the unsigned type of `T`; both have `bits` bits.
#define NIXIE_INTEGER(T, U, bits)                                                                                      \
  __device__ inline T neg(T a) { return static_cast<T>(U(0) - static_cast<U>(a)); }                                    \
  __device__ inline T add(T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }                  \
  __device__ inline T sub(T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }                  \
  __device__ inline T mul(T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }                  \
  __device__ inline T div(T a, T b) { return b == 0 ? 0 : b == -1 ? neg(a) : a / b; }                                  \
  __device__ inline T mod(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }                                          \
  __device__ inline T abs(T a) { return a < 0 ? neg(a) : a; }                                                          \
  __device__ inline T min(T a, T b) { return a < b ? a : b; }                                                          \
  __device__ inline T max(T a, T b) { return a > b ? a : b; }                                                          \
  __device__ inline T pow(T a, T b) {                                                                                  \
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;                                                     \
    T y = 1;                                                                                                           \
    for (; b > 0; b >>= 1, a = mul(a, a))                                                                              \
      if (b & 1) y = mul(y, a);                                                                                        \
    return y;                                                                                                          \
  }                                                                                                                    \
  __device__ inline T shift_left(T a, T b) { return b < 0 || b >= bits ? 0 : static_cast<T>(static_cast<U>(a) << b); } \
  __device__ inline T shift_right(T a, T b) { return a >> (b < 0 || b >= bits ? bits - 1 : b); }                       \
  __device__ inline bool is_nan(T) { return false; }                                                                   \
  __device__ inline bool is_finite(T) { return true; }                                                                 \
  __device__ inline T floor(T a) { return a; }                                                                         \
  __device__ inline T ceil(T a) { return a; }                                                                          \
  __device__ inline T round(T a) { return a; }                                                                         \
  __device__ inline T trunc(T a) { return a; }
NIXIE_INTEGER(int, u32, 32)
NIXIE_INTEGER(long long, u64, 64)
#undef NIXIE_INTEGER

__device__ inline bool is_nan(float a) { return a != a; }
__device__ inline bool is_nan(double a) { return a != a; }
__device__ inline bool is_finite(float a) { return fabsf(a) < __int_as_float(0x7f800000); }
__device__ inline bool is_finite(double a) { return fabs(a) < __longlong_as_double(0x7ff0000000000000); }

// If either side is NaN, so is the result; 0 is larger than -0.
__device__ inline float min(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ inline float max(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ inline double min(double a, double b) {
  if (a == b) return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));
  return a < b || a != a ? a : b;
}
__device__ inline double max(double a, double b) {
  if (a == b) return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
  return a > b || a != a ? a : b;
}

__device__ inline float rsqrt(float a) { return 1.0f / sqrtf(a); }
__device__ inline double rsqrt(double a) { return 1.0 / ::sqrt(a); }

#define NIXIE_FUNCTION(name, single, twice)                   \
  __device__ inline float name(float a) { return single(a); } \
  __device__ inline double name(double a) { return twice(a); }
NIXIE_FUNCTION(abs, fabsf, ::fabs)
NIXIE_FUNCTION(sqrt, sqrtf, ::sqrt)
NIXIE_FUNCTION(exp, expf, ::exp)
NIXIE_FUNCTION(exp2, exp2f, ::exp2)
NIXIE_FUNCTION(expm1, expm1f, ::expm1)
NIXIE_FUNCTION(log, logf, ::log)
NIXIE_FUNCTION(log2, log2f, ::log2)
NIXIE_FUNCTION(log1p, log1pf, ::log1p)
NIXIE_FUNCTION(sin, sinf, ::sin)
NIXIE_FUNCTION(cos, cosf, ::cos)
NIXIE_FUNCTION(tan, tanf, ::tan)
NIXIE_FUNCTION(asin, asinf, ::asin)
NIXIE_FUNCTION(acos, acosf, ::acos)
NIXIE_FUNCTION(atan, atanf, ::atan)
NIXIE_FUNCTION(sinh, sinhf, ::sinh)
NIXIE_FUNCTION(cosh, coshf, ::cosh)
NIXIE_FUNCTION(tanh, tanhf, ::tanh)
NIXIE_FUNCTION(erf, erff, ::erf)
NIXIE_FUNCTION(erfc, erfcf, ::erfc)
NIXIE_FUNCTION(floor, floorf, ::floor)
NIXIE_FUNCTION(ceil, ceilf, ::ceil)
NIXIE_FUNCTION(round, rintf, ::rint)
NIXIE_FUNCTION(trunc, truncf, ::trunc)
#undef NIXIE_FUNCTION

// Within 2 units in the last place; 0 for quotients by more than 2^126.
__device__ inline float approximate_div(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  return a * inverse;
}

// Rounds to the nearest number of a storage type.
__device__ inline float round_f16(float a) { return widen(convert<f16>(a)); }
__device__ inline float round_bf16(float a) { return widen(convert<bf16>(a)); }
__device__ inline float round_f8e4m3(float a) { return widen(convert<f8e4m3>(a)); }
__device__ inline float round_f8e5m2(float a) { return widen(convert<f8e5m2>(a)); }
__device__ inline double round_f8e4m3(double a) { return widen(convert<f8e4m3>(a)); }
__device__ inline double round_f8e5m2(double a) { return widen(convert<f8e5m2>(a)); }
__device__ inline double round_f16(double a) { return widen(convert<f16>(a)); }
__device__ inline double round_bf16(double a) { return widen(convert<bf16>(a)); }

// The exponent's bits alone: a power of two; of subnormal numbers 0, of NaN infinity.
__device__ inline float binade(float a) { return __uint_as_float(__float_as_uint(a) & 0x7f800000u); }
__device__ inline double binade(double a) {
  return __longlong_as_double(__double_as_longlong(a) & 0x7ff0000000000000LL);
}
__device__ inline float copysign(float a, float b) { return copysignf(a, b); }
__device__ inline double copysign(double a, double b) { return ::copysign(a, b); }

__device__ inline float pow(float a, float b) { return powf(a, b); }
__device__ inline double pow(double a, double b) { return ::pow(a, b); }
__device__ inline float mod(float a, float b) { return fmodf(a, b); }
__device__ inline double mod(double a, double b) { return ::fmod(a, b); }
__device__ inline float atan2(float a, float b) { return atan2f(a, b); }
__device__ inline double atan2(double a, double b) { return ::atan2(a, b); }

}  // namespace op
