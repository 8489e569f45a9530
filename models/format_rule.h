// FormatRule: the number formats in which some layers' products take their operands.
//
//   Model net = Model(resnet18, {32, 3, 64, 64}).with_formats({{.layers = "fc", .weights = "bf16"},
//                                                              {.weights = "e4m3", .activations = "e4m3", .gradients =
//                                                              "e5m2"}});
#pragma once

#include <string>
#include <vector>

#include "nixie/core/base/fields.h"
#include "nixie/core/ops/formats.h"
#include "nixie/core/ops/operands.h"
#include "nixie/layers/layer.h"

namespace nixie {

/// An empty format leaves operands as they are. The first rule whose `layers` holds a layer's path counts.
struct FormatRule {
  std::string layers = "*";
  std::string weights = "", activations = "", gradients = "";  ///< names of formats (core/ops/formats.h)
  std::string rounding = "nearest";
  std::string scale = "tensor";
  int block = 32;

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
              "axis 1, of weights of axis 0; blocks are along axis 1",
              one_of("none tensor channel block")),
        field("block", &FormatRule::block, "numbers of a block", {1, 65536}));
  }
};
inline std::string field_text(const FormatRule& rule) { return fields_text(rule); }

/// The scales of an operand: axis 1 of activations and of their gradients are the channels, weights have the channels
/// of the result first.
Scaling scaling_of(const FormatRule& rule, const Tensor& x, OperandRole role);

/// What the rules make of the operands of one run of a net. Throws for a format that is not known.
OperandRule operand_rule(const std::vector<FormatRule>& rules, const Pass& pass);

}  // namespace nixie
