// The cost of f32 convolutions split and unsplit. Fitted to 120 random layers in fp32 and 113 in tf32 on an H200
// (benchmark sweep --seed 101).
#include "nixie/backends/cuda/families/conv/conv_cost.h"

#include <algorithm>
#include <utility>

#include "nixie/backends/cuda/families/conv/conv_ffma.h"
#include "nixie/backends/cuda/families/conv/conv_halo.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/conv/wgrad_patches.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/products/tiles.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr double kPortableShare = 0.375;  // of the rate of multiply-adds, in the portable product

// How many heads read the operand in front of which planes are filled.
double heads_that_read(const Plan& plan, int slot) {
  const auto is_read = [&](const Kernel& kernel) {
    return kernel.head && std::ranges::count(kernel.head->operands, slot, &Operand::slot) > 0;
  };
  return static_cast<double>(std::max<std::ptrdiff_t>(1, std::ranges::count_if(plan.kernels, is_read)));
}

double flops_of(const ConvProblem& conv) {
  return 2.0 * conv.images * conv.p * conv.q * conv.filters * conv.r * conv.s * conv.channels / conv.groups;
}

// As gemm_sm80 computes it, with operands in pieces of 16 bytes.
Product product_in_pieces(const ConvProblem& conv) {
  const std::int64_t window = std::int64_t{conv.r} * conv.s, channels = conv.channels / conv.groups,
                     filters = conv.filters / conv.groups;
  Product p{.groups = conv.groups, .vector_a = 8, .vector_b = 8, .one_tap = window == 1, .is_conv = true};
  p.m = std::int64_t{conv.images} * conv.p * conv.q, p.n = filters, p.k = window * channels;
  p.along_k_a = p.along_k_b = true;
  if (conv.role == ConvRole::input_grad)
    p.m = std::int64_t{conv.images} * conv.height * conv.width, p.n = channels, p.k = window * filters,
    p.along_k_b = false;
  if (conv.role == ConvRole::filter_grad)
    p.k = std::exchange(p.m, filters), p.n = window * channels, p.along_k_a = p.along_k_b = false, p.sums_pixels = true;
  return p;
}

}  // namespace

Work tensor_core_work(const ConvProblem& conv, const Chip& chip) {
  if (!chip.has_wgmma())
    return {.clocks = tensor_tilings(product_in_pieces(conv), {}, chip).front().clocks, .launches = 1};
  if (conv.role != ConvRole::filter_grad) return tile_work(conv, forward_tiles(conv, chip).front());
  const Work work = tile_work(conv, gradient_tiles(conv, chip).front());
  const auto patch = gradient_patch(conv, chip);
  if (!patch) return work;
  const Work of_patch = gradient_work(patch->clocks);
  return chip.seconds(of_patch) < chip.seconds(work) ? of_patch : work;
}

// As two launches, which run beside those of the other operand; the fit was made when it had two.
Work planes_work(double elements, int planes) { return {.bytes = elements * (8 + 2 * planes), .launches = 1.6}; }

Estimate unsplit_estimate(const Plan& plan, const Kernel& kernel, const Chip& chip) {
  auto [seconds, share] = product_estimate(plan, kernel, chip);
  const std::optional<ConvProblem> conv = conv_of(plan, kernel, Groups::any);
  if (!conv || !all_f32(plan, *kernel.head)) return {seconds, share};
  if (multiplier_of(plan, *kernel.head, chip) == Multiplier::multiply_adds) {
    const Match by_ffma = conv_ffma().match(plan, kernel, chip);
    if (std::holds_alternative<Choice>(by_ffma))
      seconds = chip.seconds(ffma_work(*conv, chip)), share = 1;
    else
      seconds = std::max(seconds, chip.seconds({.fma = flops_of(*conv) / kPortableShare}));
  }
  return {seconds / chip.multiply_add_speed, share};
}

Estimate split_estimate(const Plan& plan, const Kernel& kernel, const ConvProblem& split, const Chip& chip) {
  double seconds = chip.seconds(tensor_core_work(split, chip));
  if (split.groups == 1 && fits_halo(split, chip))
    seconds = std::min(seconds, chip.seconds(forward_work(halo_clocks(split, chip))));
  for (int i : {0, 1}) {
    const Operand& operand = kernel.head->operands[static_cast<std::size_t>(i)];
    const bool packed = split.by_rows && i == images_operand(split.role);
    const double elements = packed ? 1.0 * split.images * split.height * split.width * split.channels
                                   : static_cast<double>(operand.shape.size());
    seconds += chip.seconds(planes_work(elements, split.planes)) / heads_that_read(plan, operand.slot);
  }
  return {seconds, split.planes > 1 ? tensor_core_share(split, chip) : kMeanShare};
}

}  // namespace nixie::cuda
