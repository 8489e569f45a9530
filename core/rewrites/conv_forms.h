// Forms of convolutions: other expressions of the same values, which a target computes faster.
#pragma once

#include "nixie/core/graph/backend.h"
#include "nixie/core/state/graph.h"

namespace nixie {

/// Writes convolutions of one and of three spatial axes, in every role, as ones of two, if the target estimates them to
/// be faster, and with them the ops around them:
/// - signals as images of one row;
/// - volumes whose window is one pixel of a plane as images whose columns are the pixels of a plane;
/// - volumes whose window is in one plane as planes, one after the other;
/// - others as planes, whose channels are those of all planes that the window meets: the taps along the depth. Input
///   gradients do so where the stride along the depth is 1. Where copied planes would take more than `most_bytes`,
///   images are computed in parts.
/// Convolutions of images by at most four filters of one pixel, such as the last of a segmentation, become a sum over
/// channels for each, where that is faster.
/// Leaves stay in order.
Graph choose_conv_forms(const Graph& graph, const Target& target, std::int64_t most_bytes = std::int64_t{1} << 30);

}  // namespace nixie
