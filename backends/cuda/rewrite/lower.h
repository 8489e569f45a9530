// Lowering: forms the groups of a plan and says what runs each, before memory is laid out.
//
// Rewrites come first: they change a plan into another one that any backend runs. Then each head asks the families, its
// operands are copied to where the family reads them, groups absorb their neighbours' work, and all other kernels get a
// family, too.
#pragma once

#include <optional>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// Lowers a plan for a chip. `winograd`: convolutions of f32 by multiply-adds, and 16-bit ones on sm_90a, may be sums
/// of fewer products. NIXIE_TRACE=families prints which families refused each group and why.
void lower(Plan& plan, const Chip& chip, bool winograd = true);

// ---- Rewrites ----
/// Convolutions and poolings of one spatial axis, and the kernels around them, get a second axis of one position.
void give_second_axis(Plan& plan);
/// Moves elementwise work (a ReLU's gate) from a kernel that also sums its result into the kernel of the convolution
/// or product before it.
void move_gates_to_heads(Plan& plan);
/// Copies results and gradients of max poolings to channels-last.
void lay_out_pools(Plan& plan);
/// Makes first layers of f32, whose channels are no multiple of four, layers of rows of their windows.
void pack_rows_fp32(Plan& plan, const Chip& chip);
/// Computes f32 convolutions of 3x3 or 5x5, stride 1 and Math::ieee by Winograd's tiles where an estimate says that
/// this is faster, or wherever it can in tiles of `tile` x `tile` results, 2 or 4; with `halves` 16-bit ones of 3x3,
/// too, by estimate in tiles of 2x2. Where the tiles' matrices would take more than `most_bytes`, shares of the images
/// make and use them one after the other.
void lower_to_winograd(Plan& plan, const Chip& chip, bool halves = false, int tile = 0,
                       std::int64_t most_bytes = std::int64_t{1} << 30);
/// Runs before lower_to_winograd: forward passes and filter gradients of strided convolutions become ones of stride 1
/// where Winograd then makes them faster, or `wherever_possible`.
void lower_strided_convs(Plan& plan, const Chip& chip, bool wherever_possible);

/// 16-bit input gradients of strided convolutions become one of stride 1 that computes all phases of the input, and a
/// kernel that puts them beside each other, where an estimate says that this is faster than what follows.
void merge_phases(Plan& plan, const Chip& chip);
/// Input gradients of strided convolutions become ones of stride 1, one for each phase of the input, where there is
/// enough work, or `wherever_possible`.
void lower_strided_input_grads(Plan& plan, bool wherever_possible = false);
/// Convolutions of three spatial axes become ones of two over planes of images, where an estimate says that this is
/// faster than the portable kernels, or `wherever_possible`. Where copied planes would take more than `most_bytes`,
/// shares of the images take turns.
void lower_to_planes(Plan& plan, const Chip& chip, bool wherever_possible = false,
                     std::int64_t most_bytes = std::int64_t{1} << 30);

/// Gives 16-bit convolutions that only portable kernels take a form that tensor cores take, where an estimate says that
/// this is faster. `by_rank`, for tests: wherever possible, strided input gradients among them, in the form of this
/// rank by estimate (0: the fastest), modulo the number of forms.
void unfold_convs(Plan& plan, const Chip& chip, std::optional<std::size_t> by_rank = {});

// ---- Groups ----
/// Copies operands to the layouts and types in which the chosen families read them.
void prepare_operands(Grouping& grouping);
/// Lets max poolings' gradients write planes of halves, where those are all that is read of them.
void fuse_splits_into_pool_grads(Grouping& grouping);
/// Lets small kernels whose programs differ in numbers alone share a launch, where they do not depend on each other.
void share_launches(Grouping& grouping);
/// Fuses elementwise preprocessing of byte images into the kernels that read it, where all of them can.
void fold_byte_images(Grouping& grouping);

}  // namespace nixie::cuda
