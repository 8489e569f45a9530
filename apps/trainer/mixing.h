// Mixing: mixup and cutmix of pairs of a batch's images, with the loss split between their labels.
#pragma once

#include "nixie/configs/parse/config.h"
#include "nixie/core/graph/world.h"
#include "nixie/layers/loss.h"

namespace nixie {

/// Sample i is mixed with sample N - 1 - i of the ranks' whole batch, which is one draw, a function of the seed and the
/// step.
class Mixing {
 public:
  Mixing(const MixingOptions& options, std::uint64_t seed, const World& world = {});

  bool is_on() const { return options_.mixup > 0 || options_.cutmix > 0; }
  /// The numbers that a step of images [H, W] reads, f32 [6]: the first image's weight outside the box, the box (top,
  /// bottom, left, right), and the first label's share.
  Array draw(std::int64_t step, std::int64_t height, std::int64_t width) const;
  /// Images [N, C, H, W] with their partners mixed in.
  Tensor images(const Tensor& images, const Tensor& drawn) const;
  /// The loss of both labels by their shares.
  Tensor loss(const AnyLoss& loss, const Tensor& output, const Tensor& labels, const Tensor& drawn) const;

 private:
  Tensor partner(const Tensor& x) const;

  MixingOptions options_;
  std::uint64_t stream_;
  World world_;
};

}  // namespace nixie
