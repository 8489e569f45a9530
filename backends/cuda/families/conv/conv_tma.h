// Shared by the sm_90a convolutions: their limits, tensor maps of their operands, and the window as constants.
#pragma once

#include <string>
#include <vector>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"

namespace nixie::cuda {

/// Why an im2col map cannot move the window over the images (input gradients: over dy); empty if it can.
std::string im2col_limits(const ConvProblem& conv);
/// Why conv_fprop, or conv_wgrad, cannot compute a problem of these sizes; empty if it can.
std::string fprop_limits(const ConvProblem& conv);
std::string wgrad_limits(const ConvProblem& conv);
/// The limits of the one that computes the problem's role.
std::string tensor_core_limits(const ConvProblem& conv);

/// The map of x (input gradients: dy) in im2col boxes of `slice` channels of `pixels` outputs, swizzled over the length
/// of a box's row (see TensorMap).
TensorMap images_map(const Operand& operand, Dtype dtype, const ConvProblem& conv, std::array<int, 2> pad,
                     std::array<int, 2> stride, int slice, int pixels);
/// The map of a packed array in boxes.
TensorMap tiled_map(const Operand& operand, Dtype dtype, std::vector<std::uint64_t> sizes,
                    std::vector<std::uint32_t> box, int swizzle_bytes);

/// The map of channels-last images, or images in pieces, in boxes of {channels, images, columns, rows}.
TensorMap patches_map(const Operand& operand, Dtype dtype, std::vector<std::uint32_t> box, int swizzle_bytes);

/// Operand 0 or 1 of a head, or its low plane (plane 1).
const Operand& plane_of(const Choice& choice, int operand, int plane);
/// The indices of all maps of a program; and the suffix by which a variant's name says that it has several products.
std::vector<int> all_maps(const KernelCode& code);
const char* of_products(const ConvProblem& conv);

std::string tile_defines(const ConvProblem& conv, const Tile& tile, int slice);
/// CONV_R, CONV_S, and strides, pads, dilations.
std::string window_defines(const ConvProblem& conv, std::array<int, 2> pad);

/// Appends rows to a table of constants, word by word.
template <class T>
void append_words(std::vector<std::int32_t>& table, const std::vector<T>& rows) {
  const auto* words = reinterpret_cast<const std::int32_t*>(rows.data());
  table.insert(table.end(), words, words + rows.size() * sizeof(T) / sizeof(std::int32_t));
}

}  // namespace nixie::cuda
