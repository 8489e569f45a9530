// AuxiliaryLoss: an output besides the net's own, with a loss of its own in training.
#pragma once

#include "nixie/layers/layer.h"
#include "nixie/layers/loss.h"

namespace nixie {

/// x, which is also an output: in training `weight` times its loss, against the targets of the net's own output, is
/// added to the run's loss (the auxiliary heads of Szegedy et al. 2014, deep supervision). In evaluation it has no
/// effect, so that layers before it that nothing else reads are not computed. Its loss is the run's if it has none of
/// its own.
struct AuxiliaryLoss {
  double weight = 0.3;
  std::optional<AnyLoss> loss = {};

  static constexpr const char* name = "auxiliary_loss";
  static constexpr auto fields() {
    return field_list(field("weight", &AuxiliaryLoss::weight, "factor of the loss"),
                      field("loss", &AuxiliaryLoss::loss, "the output's loss; null: the same as the net's own output"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
  static constexpr bool adds_loss() { return true; }
};

}  // namespace nixie
