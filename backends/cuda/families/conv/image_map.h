// Finds the elementwise kernel (a normalisation of bytes, for example) that computes a first layer's images.
#pragma once

#include <optional>
#include <vector>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// A kernel that computes images from its load `images`. None of its other loads changes from pixel to pixel.
struct ImageMap {
  std::size_t kernel = 0;
  int images = 0;
  std::vector<Instruction> body = {};  ///< its last register is the element
};

/// The kernel that writes a slot, if it is the only one that does, is such a map, and its inputs stay unchanged.
std::optional<ImageMap> map_to(const std::vector<Kernel>& kernels, int slot);

/// Whether strides are the same where a shape has more than one element.
bool same_strides(const Shape& shape, const Strides& a, const Strides& b);

/// The map that computes an operand; a view without a body if it only converts the type. None if no such map computes
/// the operand, or if the map's inputs are overwritten before the operand is read.
std::optional<MappedOperand> before_map(const std::vector<Kernel>& kernels, const Operand& operand);

}  // namespace nixie::cuda
