// OperandScope: what is done with the operands of products while a graph is written, such as rounding them to a format
// or measuring them. Layers need not know of it.
//
//   const OperandScope scope([](const Tensor& x, OperandRole, const std::string&) { return quantized(x,
//   format_named("e4m3")); }); Tensor y = model(x, pass);  // every matmul, conv and deconv multiplies numbers of e4m3,
//   forward and backward
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "nixie/core/graph/tensor.h"

namespace nixie {

/// What an operand of a product is. The product's gradients are products of the same two operands and its result's
/// gradient, so these three are all that a layer multiplies.
enum class OperandRole : std::uint8_t {
  weights,      ///< computed from Variables, and from nothing else but numbers
  activations,  ///< any other operand
  gradients     ///< of the product's result
};
std::string_view to_string(OperandRole role);

/// The value to multiply in place of x, of its shape and type. `layer` is the path of the open Scopes
/// (`features.0`). That of a gradient is called when gradients are taken, after the scope may have ended.
using OperandRule = std::function<Tensor(const Tensor& x, OperandRole role, const std::string& layer)>;
/// How the sums of a layer's products are rounded, those of their gradients, too.
using SumsRule = std::function<Sums(const std::string& layer)>;

/// While it exists, products written on this thread follow the rule; those of gradients do not by themselves, since
/// their operands are already what the rule gave. Scopes nest: the innermost counts; an empty rule is none.
class OperandScope {
 public:
  explicit OperandScope(OperandRule rule, SumsRule sums = {});
  ~OperandScope();
  OperandScope(const OperandScope&) = delete;
  OperandScope& operator=(const OperandScope&) = delete;

  /// The rule in force; empty without one. A rule that changes operands may hand them on to one that measures them.
  static OperandRule rule();
  /// The operand by the rule in force; x itself without one.
  static Tensor operand(const Tensor& x);
  /// A product's result, whose gradient follows the rule in force.
  static Tensor product(const Tensor& y);
  /// How the sums of a product that is written now are rounded.
  static Sums sums();

 private:
  OperandRule rule_;
  SumsRule sums_;
  const OperandScope* outer_;
};

/// Stored 8-bit floats times one power of two, f32: an op of its own, so that products can take the two apart.
Tensor scaled(const Tensor& numbers, const Tensor& scale);
struct ScaledNumbers {
  Tensor numbers, scale;  ///< the scale: f32 []
};
/// What x is the product of, if `scaled` made it with a single scale.
std::optional<ScaledNumbers> scaled_numbers(const Tensor& x);

}  // namespace nixie
