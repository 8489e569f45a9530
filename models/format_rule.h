// FormatRule: the number formats in which some layers' products take their operands.
//
//   Model net = Model(resnet18, {32, 3, 64, 64}).with_formats({{.layers = "fc", .weights = "bf16"},
//                                                              {.weights = "e4m3", .activations = "e4m3", .gradients =
//                                                              "e5m2"}});
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nixie/core/base/fields.h"
#include "nixie/core/ops/formats.h"
#include "nixie/core/ops/operands.h"
#include "nixie/layers/layer.h"

namespace nixie {

/// Sums of products that are rounded to the nearest number of a format whenever `every` more terms are added.
struct SumsOptions {
  std::string format = "";
  int every = 32;

  static constexpr const char* name = "sums";
  static constexpr auto fields() {
    return field_list(
        field("format", &SumsOptions::format, "format that sums are rounded to, to nearest; \"\" = they are f32"),
        field("every", &SumsOptions::every, "terms after which they are rounded: 16, 32 or 64", {16, 64}));
  }
};
inline std::string field_text(const SumsOptions& sums) { return fields_text(sums); }

/// An empty format leaves operands as they are. The first rule whose `layers` holds a layer's path counts.
struct FormatRule {
  std::string layers = "*";
  std::string weights = "", activations = "", gradients = "";  ///< names of formats (core/ops/formats.h)
  std::string rounding = "nearest";
  std::string scale = "tensor";
  int block = 32;
  SumsOptions sums = {};

  static constexpr const char* name = "format";
  static constexpr auto fields() {
    return field_list(
        field("layers", &FormatRule::layers, "paths of its layers (features.0); * matches any text"),
        field("weights", &FormatRule::weights, "format of the weights in products; \"\" = as they are"),
        field("activations", &FormatRule::activations, "format of the products' other operands"),
        field("gradients", &FormatRule::gradients, "format of the gradients of the products' results"),
        field("rounding", &FormatRule::rounding, "how numbers are rounded in training; evaluations round to nearest",
              one_of("nearest toward_zero stochastic")),
        field("scale", &FormatRule::scale,
              "which numbers share a power of two that brings the largest to the format's range; channels are those of "
              "axis 1, of weights of axis 0; blocks are along axis 1; history is a tensor's, from the 16 training "
              "steps before, which saves a pass over it",
              one_of("none tensor channel block history")),
        field("block", &FormatRule::block, "numbers of a block", {1, 65536}),
        field("sums", &FormatRule::sums,
              "accumulators: of outputs, and of the gradients of inputs and weights (docs/numerics.md)"));
  }
};
inline std::string field_text(const FormatRule& rule) { return fields_text(rule); }

/// The scales of an operand that come from itself: axis 1 of activations and of their gradients are the channels,
/// weights have the channels of the result first. A history's is that of a tensor.
Scaling scaling_of(const FormatRule& rule, const Tensor& x, OperandRole role);

/// The rules for one net, and the histories that they need.
class OperandFormats {
 public:
  /// Runs the net's function once on a placeholder to learn its products. Histories are buffers among the parameters,
  /// `formats.<layer>.<role>.<number>`, f32 [16]. Throws for an unknown format, and for a rule that holds no layer with
  /// a product.
  OperandFormats(const std::vector<FormatRule>& rules, const Forward& net, const Shape& input, Parameters& parameters);

  /// What the rules make of the operands of one run of the net, behind the rule in force, which sees them unrounded.
  OperandRule rule(const Pass& pass) const;
  /// How the sums of each layer's products are rounded.
  SumsRule sums() const;
  /// True where an operand, the `number`th of this role in its layer, is beyond what its format holds with the scale of
  /// this step; empty where it has no format. Call it before the operand is rounded.
  Tensor saturated(const Tensor& x, OperandRole role, const std::string& layer, int number) const;

 private:
  const FormatRule* rule_of(const std::string& layer) const;
  std::vector<FormatRule> rules_;
  std::map<std::string, Variable> histories_;
};

}  // namespace nixie
