// Elementwise: declares an elementwise op, in the library or in a user's program.
//
//   const Elementwise swish{"swish", [](auto x) { return x / (1 + exp(-x)); },
//                           [](const Tensor& g, const Tensor& y, const Tensor& x) {
//                             Tensor s = sigmoid(x);
//                             return Gradients{g * (s + y * (1 - s))};
//                           }};
//   Tensor y = swish(x);        // the CPU, a fused GPU kernel, the gradient and (op_test) a test come with it
//
// The formula is traced once, on Symbols, when the op is declared; the trace becomes Instructions.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nixie/core/graph/instruction.h"
#include "nixie/core/graph/tensor.h"

namespace nixie {

class Symbol;
/// Appends an instruction that reads up to three symbols.
Symbol apply(Primitive primitive, std::initializer_list<Symbol> args);

/// A number inside a formula that is being traced. C++ numbers beside it become constants of its type. Its functions
/// have the names and the meaning of those in ops.h.
class Symbol {
 public:
  template <class Number>
  requires std::is_arithmetic_v<Number> Symbol(Number value)
      : Symbol(Instruction{.primitive = Primitive::constant, .value = static_cast<double>(value)}) {}
  /// Appends an instruction to the formula that is being traced on this thread.
  explicit Symbol(const Instruction& instruction);
  int reg() const { return register_; }
  /// For `if`, `?:` and loops, whose condition would be asked once, when the formula is traced.
  template <class T>
  requires std::is_same_v<T, bool>
  explicit operator T() const {
    static_assert(!std::is_same_v<T, bool>, "a formula has no if, ?: or loop; use where(condition, a, b)");
    return false;
  }

  // Friends are found by a Symbol among their arguments alone: sigmoid(2.0) outside of a formula stays a Tensor's.
  friend Symbol operator-(Symbol a) { return apply(Primitive::neg, {a}); }
  friend Symbol operator!(Symbol a) { return apply(Primitive::logical_not, {a}); }
  friend Symbol operator~(Symbol a) { return apply(Primitive::bit_not, {a}); }
#define NIXIE_BINARY(op, primitive) \
  friend Symbol operator op(Symbol a, Symbol b) { return apply(Primitive::primitive, {a, b}); }
  NIXIE_BINARY(+, add)
  NIXIE_BINARY(-, sub)
  NIXIE_BINARY(*, mul)
  NIXIE_BINARY(/, div)
  NIXIE_BINARY(==, equal)
  NIXIE_BINARY(!=, not_equal)
  NIXIE_BINARY(<, less)
  NIXIE_BINARY(<=, less_equal)
  NIXIE_BINARY(&&, logical_and)
  NIXIE_BINARY(||, logical_or)
  NIXIE_BINARY(&, bit_and)
  NIXIE_BINARY(|, bit_or)
  NIXIE_BINARY(^, bit_xor)
  NIXIE_BINARY(<<, shift_left)
  NIXIE_BINARY(>>, shift_right)
#undef NIXIE_BINARY
  friend Symbol operator>(Symbol a, Symbol b) { return b < a; }
  friend Symbol operator>=(Symbol a, Symbol b) { return b <= a; }
#define NIXIE_FUNCTION(name, primitive, count)            \
  template <class... X>                                   \
  friend Symbol name(Symbol x, X... more) {               \
    return call<Primitive::primitive, count>(x, more...); \
  }
  NIXIE_FUNCTION(logical_not, logical_not, 1)
  NIXIE_FUNCTION(abs, abs, 1)
  NIXIE_FUNCTION(is_finite, is_finite, 1)
  NIXIE_FUNCTION(is_nan, is_nan, 1)
  NIXIE_FUNCTION(sqrt, sqrt, 1)
  NIXIE_FUNCTION(rsqrt, rsqrt, 1)
  NIXIE_FUNCTION(exp, exp, 1)
  NIXIE_FUNCTION(exp2, exp2, 1)
  NIXIE_FUNCTION(expm1, expm1, 1)
  NIXIE_FUNCTION(log, log, 1)
  NIXIE_FUNCTION(log2, log2, 1)
  NIXIE_FUNCTION(log1p, log1p, 1)
  NIXIE_FUNCTION(sin, sin, 1)
  NIXIE_FUNCTION(cos, cos, 1)
  NIXIE_FUNCTION(tan, tan, 1)
  NIXIE_FUNCTION(asin, asin, 1)
  NIXIE_FUNCTION(acos, acos, 1)
  NIXIE_FUNCTION(atan, atan, 1)
  NIXIE_FUNCTION(sinh, sinh, 1)
  NIXIE_FUNCTION(cosh, cosh, 1)
  NIXIE_FUNCTION(tanh, tanh, 1)
  NIXIE_FUNCTION(erf, erf, 1)
  NIXIE_FUNCTION(erfc, erfc, 1)
  NIXIE_FUNCTION(floor, floor, 1)
  NIXIE_FUNCTION(ceil, ceil, 1)
  NIXIE_FUNCTION(round, round, 1)
  NIXIE_FUNCTION(trunc, trunc, 1)
  NIXIE_FUNCTION(binade, binade, 1)
  NIXIE_FUNCTION(logical_and, logical_and, 2)
  NIXIE_FUNCTION(logical_or, logical_or, 2)
  NIXIE_FUNCTION(pow, pow, 2)
  NIXIE_FUNCTION(atan2, atan2, 2)
  NIXIE_FUNCTION(fmod, mod, 2)
  NIXIE_FUNCTION(minimum, min, 2)
  NIXIE_FUNCTION(maximum, max, 2)
  NIXIE_FUNCTION(where, select, 3)
  // The primitives' own names, too.
  NIXIE_FUNCTION(copysign, copysign, 2)
  NIXIE_FUNCTION(mod, mod, 2)
  NIXIE_FUNCTION(min, min, 2)
  NIXIE_FUNCTION(max, max, 2)
  NIXIE_FUNCTION(select, select, 3)
#undef NIXIE_FUNCTION
  // Formulas of several instructions, beside their ops in elementwise_ops.cpp.
  friend Symbol remainder(Symbol a, Symbol b);
  friend Symbol operator%(Symbol a, Symbol b) { return remainder(a, b); }
  friend Symbol trunc_divide(Symbol a, Symbol b);
  friend Symbol floor_divide(Symbol a, Symbol b);
  friend Symbol clip(Symbol x, Symbol low, Symbol high) { return minimum(maximum(x, low), high); }
  friend Symbol sign(Symbol x);
  friend Symbol square(Symbol x) { return x * x; }
  friend Symbol reciprocal(Symbol x) { return 1 / x; }
  friend Symbol safe_log(Symbol x);
  friend Symbol sigmoid(Symbol x);
  friend Symbol sigmoid2(Symbol x);
  friend Symbol softplus(Symbol x);
  friend Symbol tanh2(Symbol x);
  friend Symbol is_inf(Symbol x) { return !is_finite(x) && !is_nan(x); }
  friend Symbol binarize(Symbol x) { return where(x >= 0, 1, -1); }
  friend Symbol relu(Symbol x) { return maximum(x, 0); }
  friend Symbol relu(Symbol x, Symbol slope) { return where(x >= 0, x, slope * x); }
  friend Symbol elu(Symbol x, Symbol alpha) { return where(x >= 0, x, alpha * expm1(minimum(x, 0))); }
  friend Symbol elu(Symbol x) { return elu(x, 1); }
  friend Symbol gelu(Symbol x);
  friend Symbol stop_gradient(Symbol x) { return x; }

 private:
  template <Primitive primitive, std::size_t count, class... X>
  static Symbol call(X... x) {
    static_assert(sizeof...(X) == count, "a function of a formula takes another number of arguments");
    return apply(primitive, {x...});
  }

  int register_;
};

/// The type of an elementwise op's result. Arithmetic uses the compute type of the promoted input type.
enum class ResultType : std::uint8_t {
  promoted,  ///< the inputs' promoted type
  floating,  ///< the same, with f32 for integers
  boolean,   ///< bool
  integer,   ///< the inputs', which must be integers
  selected,  ///< the promoted type of all inputs but the first, which is a condition: cast to bool
  cast,      ///< chosen by the caller; halves are rounded at once
  wrapped,   ///< an integer type chosen by the caller, which takes the last bits
  retyped,   ///< chosen by the caller; halves are rounded when they are stored, as in all arithmetic
};

/// The range from which tests draw an op's inputs: away from poles, kinks and ties.
struct Domain {
  double low = -2, high = 2;
};

struct ElementwiseTraits {
  ResultType result = ResultType::promoted;
  Domain domain = {};
  bool is_listed =
      true;  ///< in all_elementwise; not for ops that a program makes while it runs, or of ResultType::wrapped
};

struct ElementwiseInfo {
  std::string name;
  Formula formula;
  ElementwiseTraits traits;
  /// Gradients of the inputs from the result's gradient, the
  /// result and the inputs; null: the gradient is zero everywhere.
  std::function<Gradients(const Tensor& g, const Tensor& y, std::span<const Tensor> x)> gradient;
};

/// The type a Map node's formula is computed in: f32, f64, i64, i32 or u64.
Dtype map_compute_dtype(const Node& node);

/// Whether x is an elementwise op's result of this kind: a cast, say.
bool has_result(const Tensor& x, ResultType result);
/// Whether the value is a number of its type also where it is not stored: computed halves are not.
bool is_rounded(const Tensor& x);

/// u64 as i64 of the same order, its highest bit flipped: backends compare, sort and scan no u64. Others as they are.
Tensor as_ordered(const Tensor& x);
/// Back to `dtype`, the type before.
Tensor from_ordered(const Tensor& x, Dtype dtype);

/// Every elementwise op declared in this program, in order; tests iterate over it.
std::vector<std::shared_ptr<const ElementwiseInfo>> all_elementwise();

/// Marks an op whose gradient is zero everywhere.
struct NoGradient {};

/// An elementwise op: an object to declare once and call with Tensors and numbers (broadcast as numpy does).
class Elementwise {
 public:
  Elementwise(const Elementwise&) = default;  // no move, so that an Elementwise always has its formula
  Elementwise& operator=(const Elementwise&) = default;
  /// `body`: 1 to 16 numbers to a number, written as `[](auto x) { return ...; }` with the operators and functions of
  /// Symbol. `gradient`: the result's gradient g, the result y and the inputs to Gradients, one of each input; or
  /// NoGradient{}. A mistake in either is an error of the compiler, a wrong number of Gradients one of `gradients`.
  template <class Body, class Gradient>
  Elementwise(std::string name, Body body, Gradient gradient, ElementwiseTraits traits = {}) {
    // clang-format off
    // Written out here: each level of a template would be a line of every error in a formula.
    constexpr int n = requires(Symbol x) { body(x); } ? 1
                    : requires(Symbol x) { body(x, x); } ? 2
                    : requires(Symbol x) { body(x, x, x); } ? 3
                    : requires(Symbol x) { body(x, x, x, x); } ? 4
                    : requires(Symbol x) { body(x, x, x, x, x); } ? 5
                    : requires(Symbol x) { body(x, x, x, x, x, x); } ? 6
                    : requires(Symbol x) { body(x, x, x, x, x, x, x); } ? 7
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x); } ? 8
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x, x); } ? 9
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x, x, x); } ? 10
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x, x, x, x); } ? 11
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x, x, x, x, x); } ? 12
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x, x, x, x, x, x); } ? 13
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x, x, x, x, x, x, x); } ? 14
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x); } ? 15
                    : requires(Symbol x) { body(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x); } ? 16
                    : 0;
    // clang-format on
    static_assert(
        n > 0 || !requires { &Body::operator(); }, "a formula takes 1 to 16 numbers: [](auto x) { ... }");
    auto info = std::make_shared<ElementwiseInfo>();
    info->name = std::move(name);
    info->traits = traits;
    if constexpr (n > 0) {
      constexpr auto inputs = std::make_index_sequence<n>();
      static_assert(gives<Symbol, Body>(inputs), "a formula returns a number: [](auto x) { return x * x; }");
      if constexpr (gives<Symbol, Body>(inputs))
        info->formula = trace(n, [&](std::span<const Symbol> in) -> Symbol { return spread(in, body, inputs); });
      if constexpr (!std::is_same_v<Gradient, NoGradient>) {
        constexpr bool is_gradient = gives_gradients<Gradient>(inputs);
        static_assert(is_gradient,
                      "a gradient takes the result's gradient, the result and each input of the formula, and returns "
                      "Gradients: [](const Tensor& g, const Tensor& y, const Tensor& x) { return Gradients{g * y}; }");
        if constexpr (is_gradient)
          info->gradient = [gradient](const Tensor& g, const Tensor& y, std::span<const Tensor> x) -> Gradients {
            return spread(
                x, [&](const auto&... each) { return gradient(g, y, each...); }, std::make_index_sequence<n>());
          };
      }
    }
    declare(std::move(info));
  }

  template <class... X>
  Tensor operator()(const X&... x) const {
    return call({Tensor(x)...});
  }
  /// The op on inputs of broadcastable shapes; throws if shapes or types do not match.
  Tensor call(std::vector<Tensor> inputs) const { return call(std::move(inputs), Dtype::f32); }
  /// The same with the result type, for ops of ResultType::cast, wrapped and retyped.
  Tensor call(std::vector<Tensor> inputs, Dtype result) const;
  const ElementwiseInfo& info() const { return *info_; }
  const std::shared_ptr<const ElementwiseInfo>& shared_info() const { return info_; }

 private:
  template <class T, std::size_t>
  using Each = T;
  template <class Result, class Function, std::size_t... i>
  static constexpr bool gives(std::index_sequence<i...>) {
    return std::is_invocable_r_v<Result, Function, Each<Symbol, i>...>;
  }
  template <class Gradient, std::size_t... i>
  static constexpr bool gives_gradients(std::index_sequence<i...>) {
    return std::is_invocable_r_v<Gradients, Gradient, const Tensor&, const Tensor&, Each<const Tensor&, i>...>;
  }
  template <class T, class Function, std::size_t... i>
  static auto spread(std::span<const T> in, Function&& function, std::index_sequence<i...>) {
    return function(in[i]...);
  }
  static Formula trace(int arity, const std::function<Symbol(std::span<const Symbol>)>& body);
  void declare(std::shared_ptr<ElementwiseInfo> info);

  std::shared_ptr<const ElementwiseInfo> info_;
};

}  // namespace nixie
