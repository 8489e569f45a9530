// Layers that change the shape and nothing else.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// Axes from `first` on become one: [N, C, H, W] -> [N, C * H * W].
struct Flatten {
  int first = 1;

  static constexpr const char* name = "flatten";
  static constexpr auto fields() {
    return std::tuple{field("first", &Flatten::first, "first of the axes that become one", {0})};
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, ...] -> [N, sizes...]; one size may be -1: what is left. (core's op has the name Reshape.)
struct ReshapeTo {
  std::vector<int> sizes = {-1};

  static constexpr const char* name = "reshape";
  static constexpr auto fields() {
    return std::tuple{field("sizes", &ReshapeTo::sizes, "sizes after the batch; one may be -1: what is left", {-1})};
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
