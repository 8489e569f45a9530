// Source for first layers that read stored images (bytes, for example) and compute each element when it is loaded.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"

namespace nixie::cuda {

/// What a choice reads its images from.
const Operand& stored_images(const Choice& choice);
std::int64_t element_bytes(const Plan& plan, int slot);
/// An Operand's or an Access' first element.
template <class Place>
Argument address_of(const Plan& plan, const Place& place) {
  return {place.slot, place.offset * element_bytes(plan, place.slot)};
}

/// Members of Body, and the function that makes elements of the first.
struct ImageCode {
  std::vector<Pointer> pointers = {};
  std::string code = {};
};
ImageCode image_code(const Plan& plan, const Choice& choice);
/// CONV_X_N, CONV_X_C, CONV_X_H and CONV_X_W: their strides.
std::string stride_defines(const Choice& choice);
/// `struct Body` of these pointers, which become the code's arguments.
std::string body_of(const std::vector<Pointer>& pointers, KernelCode& code);

/// A first layer's choice whose program computes the map of another group that makes its images, if it can read the
/// map's input.
std::optional<Absorption> with_image_map(const Grouping& grouping, const Choice& choice, std::size_t other,
                                         bool any_type);
/// Whether a program of this type reads images as they are stored: in its type or bytes, or in any type.
bool reads_images(const Plan& plan, const Operand& images, Dtype dtype, bool any_type);

}  // namespace nixie::cuda
