// ConvProblem: the sizes of a 2-D convolution layer, shared by the convolution families.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <variant>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// x [images, channels, height, width], w [filters, channels / groups, r, s], y [images, filters, p, q], of 16 bits or
/// f32.
struct ConvProblem {
  ConvRole role = ConvRole::output;
  int images = 0, channels = 0, height = 0, width = 0, filters = 0, r = 0, s = 0, p = 0, q = 0;
  int groups = 1;
  std::array<int, 2> stride{}, pad{}, dilation{};
  Dtype dtype = Dtype::f16;  ///< of the operands as the program reads them
  /// f32 operands are split into so many planes of halves (rewrite/split_fp32_to_fp16.cpp); 0: operands are as they
  /// are.
  int planes = 0;
  /// Of a first layer of few channels, the numbers of a row of its window are the channels of a window of one column;
  /// `channels` counts them, padded.
  bool by_rows = false;
  int row_channels = 0, row_s = 0;  ///< by rows, filter gradient: the layer's own channels and columns

  int products() const { return planes == 2 ? 3 : 1; }
  /// Whether results end where the padding does; a phase of a strided input gradient may end before or after it.
  bool ends_with_padding() const;
  bool is_16_bit() const { return dtype == Dtype::f16 || dtype == Dtype::bf16; }
};

using ConvMatch = std::variant<ConvProblem, Refusal>;

enum class Groups : std::uint8_t { one, any };
/// The convolution of a kernel, if that is one of two dimensions, whatever its types.
ConvMatch conv_problem(const Plan& plan, const Kernel& kernel, Groups groups = Groups::one);
/// Why a problem is refused; empty where it is not.
using Limits = std::function<std::string(const ConvProblem&)>;
/// A product of two 16-bit matrices as a convolution over images of one pixel: A B^T of dense rows is a forward pass,
/// A B an input gradient, A^T B, the gradient of a linear layer's weights, a filter gradient. Refused if there are too
/// few tiles to fill the GPU, where cuBLASLt is faster.
ConvMatch product_problem(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& refuses);
/// The convolution in the first form that the limits allow: 16-bit operands as they are; f32 ones that need not be
/// multiplied exactly (Math::fp32, Math::tf32) as planes of halves, or as planes by rows, both in one group.
ConvMatch conv_in_16_bits(const Plan& plan, const Kernel& kernel, const Limits& refuses, Groups groups = Groups::one);

inline const ConvProblem& problem_of(const Choice& choice) { return std::any_cast<const ConvProblem&>(choice.sizes); }

/// Whether strides are those of Shape::channels_last, axes of one element aside, and offsets allow pieces of 16 bytes.
bool is_channels_last(const Shape& shape, const Strides& strides, std::int64_t offset);
/// Whether 16-bit channels lie side by side and everything else in steps of 16 bytes; steps may be less than a pixel.
bool is_in_pieces(const Operand& operand);
/// Whether the kernel stores what its head computes, channels-last in f32 or the type of its operands, and does nothing
/// else.
bool only_stores(const Plan& plan, const Kernel& kernel);
/// Whether all operands of a head, and its result, are f32.
bool all_f32(const Plan& plan, const Head& head);
/// The operand of images: x, or dy of an input gradient.
inline int images_operand(ConvRole role) { return role == ConvRole::filter_grad ? 1 : 0; }

/// The convolution in words, with its sizes.
std::string operation_text(const ConvProblem& conv, bool pooled = false);

}  // namespace nixie::cuda
