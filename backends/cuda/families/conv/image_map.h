// Images that arithmetic makes of stored ones, position by position.
#pragma once

#include <optional>
#include <vector>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// A kernel that makes images of what its load `images` reads, the only one that moves from pixel to pixel.
struct ImageMap {
  std::size_t kernel = 0;
  int images = 0;
  std::vector<Instruction> body = {};  ///< its last register is the element
};

/// The kernel that writes a slot, if it is the only one to do so and such a map of what stays as it is.
std::optional<ImageMap> map_to(const std::vector<Kernel>& kernels, int slot);

/// Whether strides are the same where a shape has more than one element.
bool same_strides(const Shape& shape, const Strides& a, const Strides& b);

/// The map that makes an operand (a view where it only converts); none where it is not made by such a map, or where the
/// map's inputs change.
std::optional<MappedOperand> before_map(const std::vector<Kernel>& kernels, const Operand& operand);

}  // namespace nixie::cuda
