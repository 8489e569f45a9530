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

/// A scalar inside a formula that is being traced. C++ numbers next to it become constants of its type.
class Symbol {
 public:
  template <class Number>
  requires std::is_arithmetic_v<Number> Symbol(Number value)
      : Symbol(Instruction{.primitive = Primitive::constant, .value = static_cast<double>(value)}) {}
  /// Appends an instruction to the formula that is being traced on this thread.
  explicit Symbol(const Instruction& instruction);
  int reg() const { return register_; }

 private:
  int register_;
};

/// Appends an instruction that reads up to three symbols.
Symbol apply(Primitive primitive, std::initializer_list<Symbol> args);

// The operators of formulas. `?:` cannot be overloaded: use select(condition, a, b).
inline Symbol operator-(Symbol a) { return apply(Primitive::neg, {a}); }
inline Symbol operator!(Symbol a) { return apply(Primitive::logical_not, {a}); }
inline Symbol operator~(Symbol a) { return apply(Primitive::bit_not, {a}); }
#define NIXIE_BINARY(op, primitive) \
  inline Symbol operator op(Symbol a, Symbol b) { return apply(Primitive::primitive, {a, b}); }
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
inline Symbol operator>(Symbol a, Symbol b) { return b < a; }
inline Symbol operator>=(Symbol a, Symbol b) { return b <= a; }
inline Symbol select(Symbol condition, Symbol a, Symbol b) { return apply(Primitive::select, {condition, a, b}); }
#define NIXIE_FUNCTION(name) \
  inline Symbol name(Symbol a) { return apply(Primitive::name, {a}); }
NIXIE_FUNCTION(abs)
NIXIE_FUNCTION(is_finite)
NIXIE_FUNCTION(is_nan)
NIXIE_FUNCTION(sqrt)
NIXIE_FUNCTION(rsqrt)
NIXIE_FUNCTION(exp)
NIXIE_FUNCTION(exp2)
NIXIE_FUNCTION(expm1)
NIXIE_FUNCTION(log)
NIXIE_FUNCTION(log2)
NIXIE_FUNCTION(log1p)
NIXIE_FUNCTION(sin)
NIXIE_FUNCTION(cos)
NIXIE_FUNCTION(tan)
NIXIE_FUNCTION(asin)
NIXIE_FUNCTION(acos)
NIXIE_FUNCTION(atan)
NIXIE_FUNCTION(sinh)
NIXIE_FUNCTION(cosh)
NIXIE_FUNCTION(tanh)
NIXIE_FUNCTION(erf)
NIXIE_FUNCTION(erfc)
NIXIE_FUNCTION(floor)
NIXIE_FUNCTION(ceil)
NIXIE_FUNCTION(round)
NIXIE_FUNCTION(trunc)
NIXIE_FUNCTION(binade)
#undef NIXIE_FUNCTION
inline Symbol pow(Symbol a, Symbol b) { return apply(Primitive::pow, {a, b}); }
inline Symbol mod(Symbol a, Symbol b) { return apply(Primitive::mod, {a, b}); }
inline Symbol min(Symbol a, Symbol b) { return apply(Primitive::min, {a, b}); }
inline Symbol max(Symbol a, Symbol b) { return apply(Primitive::max, {a, b}); }
inline Symbol copysign(Symbol a, Symbol b) { return apply(Primitive::copysign, {a, b}); }
inline Symbol atan2(Symbol a, Symbol b) { return apply(Primitive::atan2, {a, b}); }

/// The type of an elementwise op's result. Arithmetic uses the compute type of the promoted input type.
enum class ResultType : std::uint8_t {
  promoted,  ///< the inputs' promoted type
  floating,  ///< the same, with f32 for integers
  boolean,   ///< bool
  integer,   ///< the inputs', which must be integers
  selected,  ///< the promoted type of all inputs but the first, which is a condition: cast to bool
  cast,      ///< chosen by the caller; halves are rounded at once
  retyped,   ///< chosen by the caller; halves are rounded when they are stored, as in all arithmetic
};

/// The range from which tests draw an op's inputs: away from poles, kinks and ties.
struct Domain {
  double low = -2, high = 2;
};

struct ElementwiseTraits {
  ResultType result = ResultType::promoted;
  Domain domain;
};

struct ElementwiseInfo {
  std::string name;
  Formula formula;
  ElementwiseTraits traits;
  /// Gradients of the inputs from the result's gradient, the result and the inputs; null: the gradient is zero
  /// everywhere.
  std::function<Gradients(const Tensor& g, const Tensor& y, std::span<const Tensor> x)> gradient;
};

/// The type a Map node's formula is computed in: f32, f64, i64 or i32.
Dtype map_compute_dtype(const Node& node);

/// Whether the value is a number of its type also where it is not stored: computed halves are not.
bool is_rounded(const Tensor& x);

/// Every elementwise op declared in this program, in order; tests iterate over it.
std::vector<std::shared_ptr<const ElementwiseInfo>> all_elementwise();

/// Marks an op whose gradient is zero everywhere.
struct NoGradient {};

/// An elementwise op: an object to declare once and call with Tensors and numbers (broadcast as numpy does).
class Elementwise {
 public:
  Elementwise(const Elementwise&) = default;  // no move, so that an Elementwise always has its formula
  Elementwise& operator=(const Elementwise&) = default;
  template <class Body, class Gradient>
  Elementwise(std::string name, Body body, Gradient gradient, ElementwiseTraits traits = {})
      : Elementwise(undeclared(std::move(name), std::move(body), std::move(gradient), traits)) {
    declare();
  }
  /// The same, but not listed in all_elementwise: for ops that a program makes while it runs.
  template <class Body, class Gradient>
  static Elementwise undeclared(std::string name, Body body, Gradient gradient, ElementwiseTraits traits = {}) {
    constexpr int n = arity_of<Body>();
    auto info = std::make_shared<ElementwiseInfo>();
    info->name = std::move(name);
    info->traits = traits;
    info->formula = trace(n, [&](std::span<const Symbol> in) { return spread<n>(in, body); });
    if constexpr (!std::is_same_v<Gradient, NoGradient>) {
      info->gradient = [gradient](const Tensor& g, const Tensor& y, std::span<const Tensor> x) -> Gradients {
        return spread<n>(x, [&](const auto&... each) { return gradient(g, y, each...); });
      };
    }
    return Elementwise(std::move(info));
  }

  template <class... X>
  Tensor operator()(const X&... x) const {
    return call({Tensor(x)...});
  }
  /// The op on inputs of broadcastable shapes; throws if shapes or types do not match.
  Tensor call(std::vector<Tensor> inputs) const { return call(std::move(inputs), Dtype::f32); }
  /// The same with the result type, for ops of ResultType::cast and retyped.
  Tensor call(std::vector<Tensor> inputs, Dtype result) const;
  const ElementwiseInfo& info() const { return *info_; }

 private:
  static constexpr int kMostInputs = 16;

  template <std::size_t>
  using Parameter = Symbol;
  template <class Body, std::size_t... i>
  static constexpr bool takes(std::index_sequence<i...>) {
    return std::is_invocable_v<Body, Parameter<i>...>;
  }
  template <class Body, int n = 1>
  static constexpr int arity_of() {
    static_assert(n <= kMostInputs, "a formula takes 1 to 16 parameters");
    if constexpr (takes<Body>(std::make_index_sequence<n>()))
      return n;
    else
      return arity_of<Body, n + 1>();
  }
  template <int n, class T, class Function>
  static auto spread(std::span<const T> in, Function&& function) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return function(in[i]...); }
    (std::make_index_sequence<n>());
  }
  static Formula trace(int arity, const std::function<Symbol(std::span<const Symbol>)>& body);
  explicit Elementwise(std::shared_ptr<ElementwiseInfo> info) : info_(std::move(info)) {}
  void declare() const;

  std::shared_ptr<const ElementwiseInfo> info_;
};

}  // namespace nixie
