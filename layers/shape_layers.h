// Layers that rearrange, pad or merge positions.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// Merges the axes from `first` on: [N, C, H, W] -> [N, C * H * W].
struct Flatten {
  int first = 1;

  static constexpr const char* name = "flatten";
  static constexpr auto fields() {
    return field_list(field("first", &Flatten::first, "first of the merged axes", {0}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, ...] -> [N, sizes...]; one size may be -1: inferred. (core's op has the name Reshape.)
struct ReshapeTo {
  std::vector<int> sizes = {-1};

  static constexpr const char* name = "reshape";
  static constexpr auto fields() {
    return field_list(field("sizes", &ReshapeTo::sizes, "sizes after the batch; one may be -1: inferred", {-1}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, C, spatial...] with `pad` more positions on both sides of each spatial axis: zeros, or the image mirrored at its
/// edge pixels (`reflect`, PyTorch's ReflectionPad).
struct PadSides {
  PerAxis pad = 1;
  std::string mode = "zero";

  static constexpr const char* name = "pad";
  static constexpr auto fields() {
    return field_list(field("pad", &PadSides::pad, "positions on both sides", {0}),
                      field("mode", &PadSides::mode, "how they are filled", one_of("zero reflect")));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, C, ...]: channel k of group g becomes channel g of group k (Zhang et al. 2018).
struct ChannelShuffle {
  int groups = 2;

  static constexpr const char* name = "channel_shuffle";
  static constexpr auto fields() {
    return field_list(field("groups", &ChannelShuffle::groups, "number of channel groups", {1}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
