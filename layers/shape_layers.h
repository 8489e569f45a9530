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

/// The positions from `from` to before `to` along an axis; negative ones count from the end. (Slice is core's op.)
struct SliceRange {
  int axis = 1, from = 0;
  std::optional<int> to = {};

  static constexpr const char* name = "slice";
  static constexpr auto fields() {
    return field_list(field("axis", &SliceRange::axis, "axis other than that of the samples"),
                      field("from", &SliceRange::from, "first position; negative: from the end"),
                      field("to", &SliceRange::to, "position after the last; negative: from the end; null: the end"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// Part `part` of `of` equal parts along an axis: [N, C, ...] -> [N, C / of, ...].
struct Chunk {
  int part = 0, of = 2, axis = 1;

  static constexpr const char* name = "chunk";
  static constexpr auto fields() {
    return field_list(field("part", &Chunk::part, "number of the part, from 0", {0}),
                      field("of", &Chunk::of, "number of parts", {1}),
                      field("axis", &Chunk::axis, "axis other than that of the samples"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// Axes in another order: [N, C, H, W] -> [N, H, W, C] for 0, 2, 3, 1. (core's op has the name Permute.)
struct PermuteAxes {
  std::vector<int> order = {0};

  static constexpr const char* name = "permute";
  static constexpr auto fields() {
    return field_list(
        field("order", &PermuteAxes::order, "for each axis of the result the input's; the first stays 0", {0}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, C, spatial...] -> [N, C / factor^k, factor * spatial...] for k spatial axes: neighbouring channels become
/// neighbouring positions, the last axis fastest (Shi et al. 2016; PyTorch's PixelShuffle).
struct PixelShuffle {
  int factor = 2;

  static constexpr const char* name = "pixel_shuffle";
  static constexpr auto fields() {
    return field_list(field("factor", &PixelShuffle::factor, "growth of each spatial axis", {1}));
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
