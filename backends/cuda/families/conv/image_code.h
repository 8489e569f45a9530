// Prints source for first layers that read stored images (bytes, for example) and compute each element when loading it.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"

namespace nixie::cuda {

/// The operand from which a choice reads its images.
const Operand& stored_images(const Choice& choice);
std::int64_t element_bytes(const Plan& plan, int slot);
/// The address of the first element of an Operand or an Access.
template <class Place>
Argument address_of(const Plan& plan, const Place& place) {
  return {place.slot, place.offset * element_bytes(plan, place.slot)};
}

/// Pointer members of Body, and the function `element` that computes image elements from the first of them.
struct ImageCode {
  std::vector<Pointer> pointers = {};
  std::string code = {};
};
ImageCode image_code(const Plan& plan, const Choice& choice);
/// Defines CONV_X_N, CONV_X_C, CONV_X_H and CONV_X_W, the images' strides.
std::string stride_defines(const Choice& choice);
/// `struct Body` of these pointers, which become the code's arguments.
std::string body_of(const std::vector<Pointer>& pointers, KernelCode& code);

/// A first layer's choice with another group fused, the elementwise map that computes its images, if the program can
/// read the map's input.
std::optional<Absorption> with_image_map(const Grouping& grouping, const Choice& choice, std::size_t other,
                                         bool any_type);
/// Whether a program with operands of this type can read images as they are stored: of its own type or bytes only, or
/// of any type.
bool reads_images(const Plan& plan, const Operand& images, Dtype dtype, bool any_type);

}  // namespace nixie::cuda
