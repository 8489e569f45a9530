// A convolution of volumes as one of planes whose channels are those of all planes that its window meets.
#pragma once

#include "nixie/core/graph/tensor.h"

namespace nixie {

/// Whether a convolution of three spatial axes has so few taps and phases along the depth.
bool can_go_over_taps(const Tensor& conv);

/// A convolution [N, C, D, H, W] as the image of kPlanes (fold.h), or a filter gradient as it is. Plane d of the result
/// sums, over the taps t along the depth, the convolution of one plane of images with the filters of tap t; so planes
/// are copied with the channels of all taps side by side. Planes of a strided input gradient that use the same taps, a
/// phase, are computed together. Where copied planes would take more than `most_bytes`, images are computed in parts.
Tensor over_taps(const Tensor& conv, std::int64_t most_bytes);

}  // namespace nixie
