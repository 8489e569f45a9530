// Lowering: forms the groups of a plan and chooses the family of each, before memory is laid out.
//
// Rewrites come first: they turn a plan into another one that any backend runs. Then each kernel with a head gets a
// family, its operands are copied to the layout that the family reads, groups absorb their neighbours' work, and all
// other kernels get a family, too.
#pragma once

#include <optional>

#include "nixie/backends/cuda/families/family.h"
#include "nixie/core/graph/backend.h"

namespace nixie::cuda {

/// Lowers a plan for a chip. `winograd`: 16-bit convolutions on sm_90a may use Winograd. NIXIE_TRACE=families prints
/// which families refused each group and why.
void lower(Plan& plan, const Chip& chip, bool winograd = true);

/// The target of plans that are lowered so; it prices their groups, one after another.
Target target_of(const Chip& chip, bool winograd = true);

// ---- Rewrites ----
/// Splits sorting and scans from the stages behind them.
void split_rows(Plan& plan);
/// Copies results and gradients of max poolings to channels-last.
void lay_out_pools(Plan& plan);
/// Computes 16-bit convolutions of 3x3 with stride 1 by Winograd with tiles of 2x2 if an estimate says that this is
/// faster, or `wherever_possible`. If the transformed matrices would take more than `most_bytes`, the batch is
/// processed in parts.
void lower_to_winograd(Plan& plan, const Chip& chip, bool wherever_possible = false,
                       std::int64_t most_bytes = std::int64_t{1} << 30);

/// Turns input gradients of strided convolutions into one stride-1 convolution for all phases of the input and a
/// kernel that interleaves them, or into one for each phase, if an estimate says that this is faster than the steps
/// below.
void merge_phases(Plan& plan, const Chip& chip);
/// Turns input gradients of strided convolutions into one stride-1 convolution for each phase of the input, if there is
/// enough work, or `wherever_possible`.
void lower_strided_input_grads(Plan& plan, bool wherever_possible = false);
/// Transforms 16-bit convolutions that only portable kernels accept to a form for Hopper's kernels, if an estimate says
/// that this is faster. `by_rank`, for tests: wherever possible, strided input gradients included, in the form of this
/// rank by estimate (0: the fastest), modulo the number of forms.
void unfold_convs(Plan& plan, const Chip& chip, std::optional<std::size_t> by_rank = {});

// ---- Groups ----
/// Copies operands to the layouts and types in which the chosen families read them.
void prepare_operands(Grouping& grouping);
/// Fuses the fp16 split into max-pool backward, if only the planes are read.
void fuse_splits_into_pool_grads(Grouping& grouping);
/// Makes a reduction and kernels behind it over the same positions one, as the split of what a normalisation stores.
void join_stages(Grouping& grouping);
/// Sums over ranks that follow each other become one call, as many as it takes to exchange this much: what waits for
/// the first of them then waits for all, and the last call of a step is one that nothing hides.
void bucket_collectives(Grouping& grouping, std::int64_t least_bytes = 8 << 20);
/// Merges launches of small, independent kernels whose programs differ only in numbers.
void share_launches(Grouping& grouping);
/// Fuses elementwise preprocessing of byte images into the kernels that read it, if all of them can.
void fold_byte_images(Grouping& grouping);

}  // namespace nixie::cuda
