// Finds the elementwise kernel (a normalisation of bytes, for example) that computes a first layer's images.
#pragma once

#include <optional>
#include <vector>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// A kernel that makes images of its load `images`. No other load of it changes from pixel to pixel.
struct ImageMap {
  std::size_t kernel = 0;
  int images = 0;
  std::vector<Instruction> body = {};  ///< its last register is the element
};

/// The kernel that writes a slot, if it is the only one to do so and such a map of what stays as it is.
std::optional<ImageMap> map_to(const std::vector<Kernel>& kernels, int slot);

/// Whether strides are the same where a shape has more than one element.
bool same_strides(const Shape& shape, const Strides& a, const Strides& b);

/// The map that makes an operand; a view for a plain conversion of types; none if no such map makes it or if the map's
/// inputs are overwritten before the operand is read.
std::optional<MappedOperand> before_map(const std::vector<Kernel>& kernels, const Operand& operand);

}  // namespace nixie::cuda
