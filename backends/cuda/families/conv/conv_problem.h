// ConvProblem: the sizes of a 2-D convolution layer, shared by the convolution families.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// x [images, channels, height, width], w [filters, channels / groups, r, s], y [images, filters, p, q], in a 16-bit
/// type or f32.
struct ConvProblem {
  ConvRole role = ConvRole::output;
  int images = 0, channels = 0, height = 0, width = 0, filters = 0, r = 0, s = 0, p = 0, q = 0;
  int groups = 1;
  std::array<int, 2> stride{}, pad{}, dilation{};
  Dtype dtype = Dtype::f16;  ///< of the operands as the program reads them
  /// The number of fp16 planes into which f32 operands are split
  /// (rewrite/split_fp32_to_fp16.cpp); 0: they are not split.
  int planes = 0;
  /// For first layers with few channels: all numbers in a row of the window are the channels of a window of one column.
  /// `channels` counts them, padded.
  bool by_rows = false;
  int row_channels = 0, row_s = 0;  ///< by rows, filter gradient: the layer's own channels and columns
  /// A product of 8-bit numbers: the types of x and w. `channels` counts pairs of them, which take the place of 16-bit
  /// numbers; `dtype` is f16, whose size they have.
  std::optional<std::array<Dtype, 2>> pairs_of = {};
  /// Sums that are rounded on the way: terms of a group of these; 0: they are not.
  int sums_every = 0;
  bool transposed_x = false;  ///< a product A^T B or A^T B^T: x is stored with its images inside
  /// Whether sums leave the tensor cores: those of 8-bit floats after each stage, rounded ones after each group.
  bool promotes() const { return sums_every > 0 || (pairs_of && is_f8((*pairs_of)[0])); }
  /// Channels that a result of a forward pass or an input gradient sums at each tap.
  int summed() const { return (role == ConvRole::input_grad ? filters : channels) / groups; }
  /// Whether rounded sums are cut into several parts.
  bool has_parts() const { return sums_every > 0 && std::int64_t{1} * summed() * r * s > Sums::kPart; }

  int products() const { return planes == 2 ? 3 : 1; }
  /// Whether the last result is the last window inside the padding; in a phase of a strided input gradient it may be an
  /// earlier or a later one.
  bool ends_with_padding() const;
  bool is_16_bit() const { return dtype == Dtype::f16 || dtype == Dtype::bf16; }
};

/// The convolution of f32 operands with them split into planes; nothing if they must be multiplied exactly.
std::optional<ConvProblem> in_planes(ConvProblem conv, Math math);

using ConvMatch = std::variant<ConvProblem, Refusal>;

enum class Groups : std::uint8_t { one, any };
/// The convolution of a kernel, if it is two-dimensional, of any type.
ConvMatch conv_problem(const Plan& plan, const Kernel& kernel, Groups groups = Groups::one);
/// Returns why a problem is refused, or nothing if it is accepted.
using Limits = std::function<std::string(const ConvProblem&)>;
/// A product of two matrices as a convolution over images of one pixel: A B^T with dense rows is a forward pass, A B an
/// input gradient, and A^T B (the gradient of a linear layer's weights) a filter gradient. Of 16-bit operands, or of
/// f32 ones as fp16 planes, unless they must be multiplied exactly. Those of 8-bit numbers are forward passes, and
/// those with rounded sums are that or input gradients: operands of other strides are copied before. Refused if there
/// are too few tiles to fill the GPU, or planes take longer than a product of floats: then cuBLASLt is faster.
ConvMatch product_problem(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& refuses);
/// What conv_problem finds; none where it refuses the kernel.
std::optional<ConvProblem> conv_of(const Plan& plan, const Kernel& kernel, Groups groups);
/// The same of operands that are all of one 16-bit type.
std::optional<ConvProblem> conv_of_16_bits(const Plan& plan, const Kernel& kernel, Groups groups);
/// The convolution in the first form that the limits allow: 16-bit operands unchanged; f32 operands, unless they must
/// be multiplied exactly (only Math::fp32 and Math::tf32), as fp16 planes, or, of one group, as fp16 planes by rows.
/// Refused where f32 takes less time unsplit (conv_cost.h).
ConvMatch conv_in_16_bits(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& refuses,
                          Groups groups = Groups::one);

inline const ConvProblem& problem_of(const Choice& choice) { return std::any_cast<const ConvProblem&>(choice.sizes); }

/// Whether strides are those of Shape::channels_last, except for axes of one element, and 16-byte pieces are aligned.
bool is_channels_last(const Shape& shape, const Strides& strides, std::int64_t offset);
/// Whether 16-bit channels are contiguous and all other strides multiples of 16 bytes, which may be less than a pixel.
bool is_in_pieces(const Operand& operand);
/// Whether the kernel only stores its head's result, channels-last, in one of these types.
bool only_stores(const Plan& plan, const Kernel& kernel, const std::vector<Dtype>& dtypes);
/// The same in f32 or the type of its operands.
bool only_stores(const Plan& plan, const Kernel& kernel);
/// Whether all operands of a head are of a type.
bool all_operands_are(Dtype dtype, const Plan& plan, const Head& head);
/// Whether all operands of a head, and its result, are f32.
bool all_f32(const Plan& plan, const Head& head);
/// The operand of images: x, or dy of an input gradient.
inline int images_operand(ConvRole role) { return role == ConvRole::filter_grad ? 1 : 0; }

/// The convolution in words, with its sizes.
std::string operation_text(const ConvProblem& conv, bool pooled = false);

}  // namespace nixie::cuda
