// Every elementwise op of the library: its formula and its gradient, side by side. tests/core/ops_test.cpp tests all.
#include <cmath>
#include <limits>
#include <numbers>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

// ---- formulas of several instructions ----
// They are functions, so that a formula of a user's program may call them before the library's ops are declared.
namespace {

constexpr double kLn2 = std::numbers::ln2;
constexpr double kTwoOverRootPi = 2 * std::numbers::inv_sqrtpi;
constexpr double kRootHalf = std::numbers::sqrt2 / 2;
constexpr double kInverseRootTwoPi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;

// 1 / (1 + e^-x), where `power` is e^-|x|, which is never infinite: e^-x is from 89 below 0 on, in floats.
Symbol logistic(Symbol x, Symbol power) { return where(x < 0, power, 1) / (1 + power); }

}  // namespace

// numpy's remainder and floor division. A C remainder with another sign than b's is short of a whole b.
Symbol remainder(Symbol a, Symbol b) {
  const Symbol rest = fmod(a, b), zero = abs(rest);
  const Symbol signed_rest = where((rest < 0) != (b < 0), rest + b, rest);
  return where(rest == 0, where(b < 0, -zero, zero), signed_rest);
}
// The whole number, or what a / b is: by 0 infinite, of integers 0; of a small quotient a zero of its sign.
static Symbol whole_quotient(Symbol a, Symbol b, Symbol whole) {
  const Symbol quotient = a / b;
  return where(b == 0, quotient, where(whole == 0, quotient * 0, whole));
}
Symbol trunc_divide(Symbol a, Symbol b) { return whole_quotient(a, b, round((a - fmod(a, b)) / b)); }
Symbol floor_divide(Symbol a, Symbol b) {
  const Symbol rest = fmod(a, b), whole = round((a - rest) / b);
  return whole_quotient(a, b, where(rest != 0 && (rest < 0) != (b < 0), whole - 1, whole));
}
Symbol sign(Symbol x) { return where(x > 0, 1, where(x < 0, -1, where(x == 0, 0, x))); }
Symbol safe_log(Symbol x) { return where(x <= 0, -50, log(x)); }
Symbol sigmoid(Symbol x) { return logistic(x, exp(-abs(x))); }
Symbol sigmoid2(Symbol x) { return logistic(x, exp2(-abs(x))); }
Symbol softplus(Symbol x) { return maximum(x, 0) + log1p(exp(-abs(x))); }
Symbol tanh2(Symbol x) { return tanh(x * kLn2); }
// x Phi(x). Phi and its slope are 0 or 1 well before 64, also in doubles: an infinity times 0 would be NaN. By erfc the
// tail below zero would have more digits, at a third more time on a GPU in halves.
Symbol gelu(Symbol x) { return maximum(x, -64) * 0.5 * (1 + erf(x * kRootHalf)); }

namespace {

using T = const Tensor&;
constexpr Domain kPositive{0.2, 3}, kUnit{-0.9, 0.9};
constexpr ElementwiseTraits kFloating{.result = ResultType::floating};
constexpr ElementwiseTraits kBoolean{.result = ResultType::boolean};
constexpr ElementwiseTraits kInteger{.result = ResultType::integer, .domain = {0, 9}};
constexpr ElementwiseTraits kWrapped{.result = ResultType::wrapped, .is_listed = false};
constexpr ElementwiseTraits floating(Domain domain) { return {.result = ResultType::floating, .domain = domain}; }

/// A C++ number, which takes its type from the other operand; null for anything else.
const Constant* number_in(T x) {
  const auto* constant = op_as<Constant>(x);
  return constant && constant->weak ? constant : nullptr;
}

// ---- arithmetic ----
const Elementwise neg_op{"neg", [](auto x) { return -x; }, [](T g, T, T) { return Gradients{-g}; }};
const Elementwise add_op{"add", [](auto a, auto b) { return a + b; }, [](T g, T, T, T) { return Gradients{g, g}; }};
const Elementwise sub_op{"sub", [](auto a, auto b) { return a - b; }, [](T g, T, T, T) { return Gradients{g, -g}; }};
const Elementwise mul_op{"mul", [](auto a, auto b) { return a * b; },
                         [](T g, T, T a, T b) {
                           return Gradients{g * b, g * a};
                         }};
const Elementwise div_op{"div", [](auto a, auto b) { return a / b; },
                         [](T g, T y, T, T b) {
                           Tensor share = g / b;
                           return Gradients{share, -share * y};
                         },
                         floating(kPositive)};
const Elementwise pow_op{"pow",
                         [](auto a, auto b) { return pow(a, b); },
                         [](T g, T y, T a, T b) {
                           // Arithmetic of numbers alone is in double, as next to f64 they are.
                           const Constant *base = number_in(a), *power = number_in(b);
                           // 0^b is constant for b > 0, where log(0) would make NaN of it.
                           const Tensor log_a = base && base->value != 0
                                                    ? Tensor(std::log(base->value))
                                                    : log(where(logical_and(a == 0, b >= 0), 1.0, a));
                           // 0^0 is constant in a, where 0 * 0^-1 would be NaN.
                           const Tensor less = power && power->value != 0
                                                   ? Tensor(power->value - 1)
                                                   : where(logical_and(a == 0, b == 0), 0.0, b - 1);
                           return Gradients{g * b * pow(a, less), g * y * log_a};
                         },
                         {.domain = kPositive}};
const Elementwise fmod_op{"fmod",
                          [](auto a, auto b) { return fmod(a, b); },
                          [](T g, T, T a, T b) {
                            return Gradients{g, -g * trunc(a / b)};
                          },
                          {.domain = kPositive}};
const Elementwise remainder_op{"remainder",
                               [](auto a, auto b) { return remainder(a, b); },
                               [](T g, T, T a, T b) {
                                 return Gradients{g, -g * floor(a / b)};
                               },
                               {.domain = kPositive}};
const Elementwise trunc_divide_op{
    "trunc_divide", [](auto a, auto b) { return trunc_divide(a, b); }, NoGradient{}, {.domain = kPositive}};
const Elementwise floor_divide_op{
    "floor_divide", [](auto a, auto b) { return floor_divide(a, b); }, NoGradient{}, {.domain = kPositive}};
const Elementwise maximum_op{"maximum", [](auto a, auto b) { return maximum(a, b); },
                             [](T g, T, T a, T b) {
                               return Gradients{g * (a >= b), g * (a < b)};
                             }};
const Elementwise minimum_op{"minimum", [](auto a, auto b) { return minimum(a, b); },
                             [](T g, T, T a, T b) {
                               return Gradients{g * (a <= b), g * (a > b)};
                             }};
const Elementwise abs_op{"abs", [](auto x) { return abs(x); }, [](T g, T, T x) { return Gradients{g * sign(x)}; }};
const Elementwise sign_op{"sign", [](auto x) { return sign(x); }, NoGradient{}};
const Elementwise square_op{"square", [](auto x) { return square(x); },
                            [](T g, T, T x) { return Gradients{g * (2 * x)}; }};
const Elementwise reciprocal_op{"reciprocal", [](auto x) { return reciprocal(x); },
                                [](T g, T y, T) { return Gradients{-g * square(y)}; }, floating(kPositive)};
const Elementwise sqrt_op{"sqrt", [](auto x) { return sqrt(x); }, [](T g, T y, T) { return Gradients{g / (2 * y)}; },
                          floating(kPositive)};
const Elementwise rsqrt_op{"rsqrt", [](auto x) { return rsqrt(x); },
                           [](T g, T y, T x) { return Gradients{g * y / (-2 * x)}; }, floating(kPositive)};

// ---- exponentials ----
const Elementwise exp_op{"exp", [](auto x) { return exp(x); }, [](T g, T y, T) { return Gradients{g * y}; }, kFloating};
const Elementwise exp2_op{"exp2", [](auto x) { return exp2(x); }, [](T g, T y, T) { return Gradients{g * (y * kLn2)}; },
                          kFloating};
const Elementwise expm1_op{"expm1", [](auto x) { return expm1(x); }, [](T g, T y, T) { return Gradients{g * (y + 1)}; },
                           kFloating};
const Elementwise log_op{"log", [](auto x) { return log(x); }, [](T g, T, T x) { return Gradients{g / x}; },
                         floating(kPositive)};
const Elementwise log2_op{"log2", [](auto x) { return log2(x); }, [](T g, T, T x) { return Gradients{g / (x * kLn2)}; },
                          floating(kPositive)};
const Elementwise log1p_op{"log1p", [](auto x) { return log1p(x); }, [](T g, T, T x) { return Gradients{g / (1 + x)}; },
                           floating(kPositive)};
const Elementwise safe_log_op{"safe_log", [](auto x) { return safe_log(x); },
                              [](T g, T, T x) {
                                // Not `where(x <= 0, 0, g / x)`: its own gradient divides by 0 in the branch that is
                                // not taken.
                                return Gradients{g / where(x <= 0, std::numeric_limits<double>::infinity(), x)};
                              },
                              floating(kPositive)};
const Elementwise sigmoid_op{"sigmoid", [](auto x) { return sigmoid(x); },
                             [](T g, T y, T) { return Gradients{g * y * (1 - y)}; }, kFloating};
const Elementwise sigmoid2_op{"sigmoid2", [](auto x) { return sigmoid2(x); },
                              [](T g, T y, T) { return Gradients{g * y * (1 - y) * kLn2}; }, kFloating};
const Elementwise softplus_op{"softplus", [](auto x) { return softplus(x); },
                              [](T g, T, T x) { return Gradients{g * sigmoid(x)}; }, kFloating};

// ---- trigonometry ----
const Elementwise sin_op{"sin", [](auto x) { return sin(x); }, [](T g, T, T x) { return Gradients{g * cos(x)}; },
                         kFloating};
const Elementwise cos_op{"cos", [](auto x) { return cos(x); }, [](T g, T, T x) { return Gradients{-g * sin(x)}; },
                         kFloating};
const Elementwise tan_op{"tan", [](auto x) { return tan(x); }, [](T g, T y, T) { return Gradients{g * (1 + y * y)}; },
                         floating({-1, 1})};
const Elementwise asin_op{"asin", [](auto x) { return asin(x); },
                          [](T g, T, T x) { return Gradients{g * rsqrt(1 - x * x)}; }, floating(kUnit)};
const Elementwise acos_op{"acos", [](auto x) { return acos(x); },
                          [](T g, T, T x) { return Gradients{-g * rsqrt(1 - x * x)}; }, floating(kUnit)};
const Elementwise atan_op{"atan", [](auto x) { return atan(x); },
                          [](T g, T, T x) { return Gradients{g / (1 + x * x)}; }, kFloating};
const Elementwise atan2_op{"atan2", [](auto y, auto x) { return atan2(y, x); },
                           [](T g, T, T y, T x) {
                             const Tensor share = g / where(logical_and(x == 0, y == 0), 1, x * x + y * y);
                             return Gradients{share * x, -share * y};
                           },
                           floating(kPositive)};
const Elementwise sinh_op{"sinh", [](auto x) { return sinh(x); }, [](T g, T, T x) { return Gradients{g * cosh(x)}; },
                          kFloating};
const Elementwise cosh_op{"cosh", [](auto x) { return cosh(x); }, [](T g, T, T x) { return Gradients{g * sinh(x)}; },
                          kFloating};
const Elementwise tanh_op{"tanh", [](auto x) { return tanh(x); },
                          [](T g, T y, T) { return Gradients{g * (1 - y * y)}; }, kFloating};
const Elementwise tanh2_op{"tanh2", [](auto x) { return tanh2(x); },
                           [](T g, T y, T) { return Gradients{g * (1 - y * y) * kLn2}; }, kFloating};
const Elementwise erf_op{"erf", [](auto x) { return erf(x); },
                         [](T g, T, T x) { return Gradients{g * kTwoOverRootPi * exp(-x * x)}; }, kFloating};
const Elementwise erfc_op{"erfc", [](auto x) { return erfc(x); },
                          [](T g, T, T x) { return Gradients{g * -kTwoOverRootPi * exp(-x * x)}; }, kFloating};

// ---- rounding ----
const Elementwise floor_op{"floor", [](auto x) { return floor(x); }, NoGradient{}, kFloating};
const Elementwise ceil_op{"ceil", [](auto x) { return ceil(x); }, NoGradient{}, kFloating};
const Elementwise round_op{"round", [](auto x) { return round(x); }, NoGradient{}, kFloating};
const Elementwise trunc_op{"trunc", [](auto x) { return trunc(x); }, NoGradient{}, kFloating};
const Elementwise binade_op{"binade", [](auto x) { return binade(x); }, NoGradient{}, kFloating};

// ---- activations ----
const Elementwise relu_op{"relu", [](auto x) { return relu(x); }, [](T g, T y, T) { return Gradients{g * (y > 0)}; }};
const Elementwise leaky_relu_op{"leaky_relu", [](auto x, auto slope) { return relu(x, slope); },
                                [](T g, T, T x, T slope) {
                                  return Gradients{where(x > 0, g, g * slope), where(x > 0, 0, g * x)};
                                }};
const Elementwise elu_op{"elu", [](auto x, auto alpha) { return elu(x, alpha); },
                         [](T g, T, T x, T alpha) {
                           const Tensor below = minimum(x, 0);
                           return Gradients{where(x > 0, g, g * alpha * exp(below)), where(x > 0, 0, g * expm1(below))};
                         },
                         kFloating};
const Elementwise gelu_op{"gelu", [](auto x) { return gelu(x); },
                          [](T g, T, T x) {
                            const Tensor near = clip(x, -64, 64);
                            const Tensor share = 0.5 * (1 + erf(x * kRootHalf));
                            return Gradients{g * (share + near * kInverseRootTwoPi * exp(-0.5 * near * near))};
                          },
                          kFloating};
const Elementwise binarize_op{"binarize", [](auto x) { return binarize(x); }, NoGradient{}};
const Elementwise stop_gradient_op{"stop_gradient", [](auto x) { return x; }, NoGradient{}};

// ---- comparisons, logic, choice ----
const Elementwise equal_op{"equal", [](auto a, auto b) { return a == b; }, NoGradient{}, kBoolean};
const Elementwise not_equal_op{"not_equal", [](auto a, auto b) { return a != b; }, NoGradient{}, kBoolean};
const Elementwise less_op{"less", [](auto a, auto b) { return a < b; }, NoGradient{}, kBoolean};
const Elementwise less_equal_op{"less_equal", [](auto a, auto b) { return a <= b; }, NoGradient{}, kBoolean};
const Elementwise logical_and_op{"logical_and", [](auto a, auto b) { return a && b; }, NoGradient{}, kBoolean};
const Elementwise logical_or_op{"logical_or", [](auto a, auto b) { return a || b; }, NoGradient{}, kBoolean};
const Elementwise logical_not_op{"logical_not", [](auto x) { return !x; }, NoGradient{}, kBoolean};
const Elementwise is_finite_op{"is_finite", [](auto x) { return is_finite(x); }, NoGradient{}, kBoolean};
const Elementwise is_inf_op{"is_inf", [](auto x) { return is_inf(x); }, NoGradient{}, kBoolean};
const Elementwise is_nan_op{"is_nan", [](auto x) { return is_nan(x); }, NoGradient{}, kBoolean};
const Elementwise where_op{"where",
                           [](auto c, auto a, auto b) { return where(c, a, b); },
                           [](T g, T, T c, T, T) {
                             return Gradients{{}, where(c, g, 0), where(c, 0, g)};
                           },
                           {.result = ResultType::selected}};
const auto retyped_gradient = [](T g, T, T x) {
  return is_floating(x.dtype()) ? Gradients{retype(g, gradient_dtype(x.dtype()))} : Gradients{{}};
};
const Elementwise cast_op{"cast", [](auto x) { return x; }, retyped_gradient, {.result = ResultType::cast}};
const Elementwise wrapped_op{"wrapped", [](auto x) { return x; }, NoGradient{}, kWrapped};
const Elementwise retype_op{"retype", [](auto x) { return x; }, retyped_gradient, {.result = ResultType::retyped}};

// ---- bits ----
const Elementwise bit_and_op{"bit_and", [](auto a, auto b) { return a & b; }, NoGradient{}, kInteger};
const Elementwise bit_or_op{"bit_or", [](auto a, auto b) { return a | b; }, NoGradient{}, kInteger};
const Elementwise bit_xor_op{"bit_xor", [](auto a, auto b) { return a ^ b; }, NoGradient{}, kInteger};
const Elementwise bit_not_op{"bit_not", [](auto x) { return ~x; }, NoGradient{}, kInteger};
const Elementwise flip_sign_op{"flip_sign", [](auto x) { return x ^ -0x1p63; }, NoGradient{}, kWrapped};
const Elementwise shift_left_op{"shift_left", [](auto a, auto b) { return a << b; }, NoGradient{}, kInteger};
const Elementwise shift_right_op{"shift_right", [](auto a, auto b) { return a >> b; }, NoGradient{}, kInteger};

}  // namespace

Tensor operator+(T a, T b) { return add_op(a, b); }
Tensor operator-(T a, T b) { return sub_op(a, b); }
Tensor operator*(T a, T b) { return mul_op(a, b); }
Tensor operator/(T a, T b) { return div_op(a, b); }
Tensor operator-(T x) { return neg_op(x); }
Tensor operator==(T a, T b) { return equal_op(a, b); }
Tensor operator!=(T a, T b) { return not_equal_op(a, b); }
Tensor operator<(T a, T b) { return less_op(a, b); }
Tensor operator<=(T a, T b) { return less_equal_op(a, b); }
Tensor operator>(T a, T b) { return less_op(b, a); }
Tensor operator>=(T a, T b) { return less_equal_op(b, a); }
Tensor operator&&(T a, T b) { return logical_and_op(a, b); }
Tensor operator||(T a, T b) { return logical_or_op(a, b); }
Tensor operator!(T x) { return logical_not_op(x); }
Tensor logical_and(T a, T b) { return logical_and_op(a, b); }
Tensor logical_or(T a, T b) { return logical_or_op(a, b); }
Tensor logical_not(T x) { return logical_not_op(x); }
Tensor operator&(T a, T b) { return bit_and_op(a, b); }
Tensor operator|(T a, T b) { return bit_or_op(a, b); }
Tensor operator^(T a, T b) { return bit_xor_op(a, b); }
Tensor operator~(T x) { return bit_not_op(x); }
Tensor operator<<(T a, T b) { return shift_left_op(a, b); }
Tensor operator>>(T a, T b) { return shift_right_op(a, b); }
Tensor where(T condition, T a, T b) { return where_op(condition, a, b); }
Tensor cast(T x, Dtype dtype) { return x.dtype() == dtype && is_rounded(x) ? x : cast_op.call({x}, dtype); }
Tensor widened(T x) { return is_f8(x.dtype()) ? retype(x, Dtype::f32) : x; }
Tensor floating(T x) { return is_floating(x.dtype()) ? widened(x) : cast(x, Dtype::f32); }
Tensor wrapped(T x, Dtype dtype) { return x.dtype() == dtype ? x : wrapped_op.call({x}, dtype); }
Tensor as_ordered(T x) { return x.dtype() == Dtype::u64 ? flip_sign_op.call({x}, Dtype::i64) : x; }
Tensor from_ordered(T x, Dtype dtype) { return x.dtype() == dtype ? x : flip_sign_op.call({x}, dtype); }
Tensor retype(T x, Dtype dtype) { return x.dtype() == dtype ? x : retype_op.call({x}, dtype); }
Tensor pow(T a, T b) { return pow_op(a, b); }
Tensor fmod(T a, T b) { return fmod_op(a, b); }
Tensor remainder(T a, T b) { return remainder_op(a, b); }
Tensor operator%(T a, T b) { return remainder_op(a, b); }
Tensor floor_divide(T a, T b) { return floor_divide_op(a, b); }
Tensor trunc_divide(T a, T b) { return trunc_divide_op(a, b); }
Tensor atan2(T y, T x) { return atan2_op(y, x); }
Tensor maximum(T a, T b) { return maximum_op(a, b); }
Tensor minimum(T a, T b) { return minimum_op(a, b); }
// Integers are whole as they are.
Tensor floor(T x) { return is_floating(x.dtype()) ? floor_op(x) : x; }
Tensor ceil(T x) { return is_floating(x.dtype()) ? ceil_op(x) : x; }
Tensor round(T x) { return is_floating(x.dtype()) ? round_op(x) : x; }
Tensor trunc(T x) { return is_floating(x.dtype()) ? trunc_op(x) : x; }
Tensor clip(T x, T low, T high) { return minimum(maximum(x, low), high); }
Tensor relu(T x, T slope) {
  const auto* constant = op_as<Constant>(slope);
  return constant && constant->value == 0 ? relu_op(x) : leaky_relu_op(x, slope);
}
Tensor elu(T x, T alpha) { return elu_op(x, alpha); }

#define NIXIE_UNARY(name) \
  Tensor name(T x) { return name##_op(x); }
NIXIE_UNARY(abs)
NIXIE_UNARY(sign)
NIXIE_UNARY(sqrt)
NIXIE_UNARY(rsqrt)
NIXIE_UNARY(square)
NIXIE_UNARY(reciprocal)
NIXIE_UNARY(exp)
NIXIE_UNARY(exp2)
NIXIE_UNARY(expm1)
NIXIE_UNARY(log)
NIXIE_UNARY(log2)
NIXIE_UNARY(log1p)
NIXIE_UNARY(safe_log)
NIXIE_UNARY(sin)
NIXIE_UNARY(cos)
NIXIE_UNARY(tan)
NIXIE_UNARY(asin)
NIXIE_UNARY(acos)
NIXIE_UNARY(atan)
NIXIE_UNARY(sinh)
NIXIE_UNARY(cosh)
NIXIE_UNARY(tanh)
NIXIE_UNARY(tanh2)
NIXIE_UNARY(sigmoid)
NIXIE_UNARY(sigmoid2)
NIXIE_UNARY(erf)
NIXIE_UNARY(erfc)
NIXIE_UNARY(binade)
NIXIE_UNARY(is_finite)
NIXIE_UNARY(is_inf)
NIXIE_UNARY(is_nan)
NIXIE_UNARY(binarize)
NIXIE_UNARY(gelu)
NIXIE_UNARY(softplus)
NIXIE_UNARY(stop_gradient)
#undef NIXIE_UNARY

Tensor& Tensor::operator+=(const Tensor& other) { return *this = *this + other; }
Tensor& Tensor::operator-=(const Tensor& other) { return *this = *this - other; }
Tensor& Tensor::operator*=(const Tensor& other) { return *this = *this * other; }
Tensor& Tensor::operator/=(const Tensor& other) { return *this = *this / other; }

}  // namespace nixie
