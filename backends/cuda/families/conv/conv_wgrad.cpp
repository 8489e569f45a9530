// Filter gradients in 16 bits on sm_90a, with the bias gradient, and the matrix products that update linear layers, in
// tiles that may be split along their sums.
#include "nixie/backends/cuda/families/conv/conv_wgrad.h"

#include "nixie/backends/cuda/families/channel_sum.h"
#include "nixie/backends/cuda/families/conv/conv_fprop.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/kernels/conv/conv_wgrad_schedule.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// Of memory that the epilogue reads and writes for each element.
int epilogue_bytes(const Plan& plan, const Kernel& kernel) {
  const auto is_dense = [&](const Access& access) {
    for (int axis = 0; axis < kernel.domain.rank(); ++axis)
      if (kernel.domain[axis] > 1 && access.strides[at(axis)] == 0) return false;
    return true;
  };
  std::size_t bytes = 0;
  for (const auto* accesses : {&kernel.loads, &kernel.stores})
    for (const Access& access : *accesses) bytes += is_dense(access) ? size_of(dtype_of(plan, access.slot)) : 0;
  return static_cast<int>(bytes);
}

std::vector<Tile> tiles_of(const Plan& plan, const Choice& choice, const Chip& chip) {
  return gradient_tiles(problem_of(choice), chip, epilogue_bytes(plan, choice.kernel));
}

KernelCode generate_tile(const Plan& plan, const Choice& choice, const Tile& tile, const Chip& chip) {
  const ConvProblem& conv = problem_of(choice);
  const bool sums = choice.channel_sum.has_value();
  const std::int64_t pixels = std::int64_t{1} * conv.images * conv.p * conv.q;
  const int channels = conv.channels / conv.groups, slice = gradient_slice(conv);
  const std::int64_t rows = gradient_rows(conv, tile);
  const WgradSchedule schedule = gradient_schedule(conv, tile, chip, epilogue_bytes(plan, choice.kernel));
  const auto items = static_cast<std::int64_t>(schedule.items.size()),
             splits = static_cast<std::int64_t>(schedule.splits.size());

  const std::int64_t part_bytes = std::int64_t{4} * schedule.slots * tile.rows() * tile.n;
  NhwcFunctor body = nhwc_functor(
      plan, choice.kernel,
      {{"float*", "db",
        sums ? Argument{choice.channel_sum->slot, choice.channel_sum->offset * 4} : Argument{Argument::kScratch, 0}},
       {"const int4*", "items", {Argument::kTable, 0}},
       {"const int4*", "splits", {Argument::kTable, items * 16}},
       {"const int*", "first_items", {Argument::kTable, (items + splits) * 16}},
       {"float*", "parts", {Argument::kScratch, 0}},
       {"float*", "bias_parts", {Argument::kScratch, part_bytes}}},
      conv.row_channels ? 1 : 4);
  KernelCode code;
  code.source = window_defines(conv, conv.pad) + tile_defines(conv, tile, slice) +
                defines({{"CONV_IN_TURN", tile.in_turn},
                         {"CONV_C", channels},
                         {"CONV_K", conv.filters / conv.groups},
                         {"CONV_GROUPS", conv.groups},
                         {"CONV_P", conv.p},
                         {"CONV_Q", conv.q},
                         {"CONV_ITEMS", items},
                         {"CONV_SPLITS", splits},
                         {"CONV_BIAS_GRAD", sums},
                         {"CONV_ROW_CHANNELS", conv.row_channels},
                         {"CONV_ROW_S", conv.row_s}}) +
                body.text + "#include \"conv_wgrad_sm90.cuh\"\n";
  code.variant = fmt::format("conv_wgrad_sm90 {}{}{}", tile.name(), sums ? " with bias" : "", of_products(conv));
  append_words(code.table, schedule.items);
  append_words(code.table, schedule.splits);
  append_words(code.table, schedule.first_items);
  code.arguments = std::move(body.arguments);
  code.scratch_bytes = part_bytes + (sums ? items * tile.rows() * 4 : 0);
  for (int plane = 0; plane < planes_of(conv.products()); ++plane) {
    const Operand &dy = plane_of(choice, 0, plane), &x = plane_of(choice, 1, plane);
    code.maps.push_back(images_map(x, conv.dtype, conv, conv.pad, conv.stride, slice, 64));
    code.maps.push_back(tiled_map(dy, conv.dtype, {u64(conv.filters), u64(pixels)}, {64, 64}, 128));
  }
  code.launches.push_back(
      {.entry = "conv_wgrad",
       .blocks = static_cast<std::int64_t>(schedule.first_items.size()) - 1,
       .threads = (tile.consumers + 1) * 128,
       .shared_bytes =
           1024 + tile.stages * planes_of(conv.products()) * (tile.rows() + tile.n) * 128 + tile.consumers * 8192,
       .maps = all_maps(code)});
  const std::int64_t reduced = splits + (sums ? rows * tile.rows() / 32 : 0);
  if (reduced > 0)
    code.launches.push_back({.entry = "conv_wgrad_reduce",
                             .blocks = reduced,
                             .threads = tile.sharing() * 128,
                             .blocks_y = tile.mma_m * tile.n / 8});
  return code;
}

class ConvWgrad final : public Family {
 public:
  std::string_view name() const override { return "conv_wgrad_sm90"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    if (!chip.has_wgmma()) return Refusal{"needs sm_90a"};
    const bool product = kernel.head && std::holds_alternative<Matmul>(kernel.head->op);
    const ConvMatch found = product ? product_problem(plan, kernel, chip, wgrad_limits)
                                    : conv_in_16_bits(plan, kernel, wgrad_limits, Groups::any);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& conv = std::get<ConvProblem>(found);
    if (product) return Choice{.kernel = kernel, .sizes = conv};
    for (const Operand& operand : kernel.head->operands)
      if (conv.planes == 0 && dtype_of(plan, operand) != conv.dtype) return Refusal{"operands of two types"};
    return Choice{.kernel = kernel, .sizes = conv, .layouts = {OperandLayout::channels_last, OperandLayout::pieces}};
  }
  std::vector<Algorithm> algorithms(const Plan& plan, const Choice& choice, const Chip& chip) const override {
    return algorithms_of(tiles_of(plan, choice, chip));
  }
  std::string operation(const Plan&, const Choice& choice) const override { return operation_text(problem_of(choice)); }
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    return with_channel_sum(grouping, choice, other);
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip,
                      const std::string& tile) const override {
    return generate_tile(plan, choice, tile_named(tiles_of(plan, choice, chip), tile), chip);
  }
};

}  // namespace

std::string wgrad_limits(const ConvProblem& conv) {
  if (conv.role != ConvRole::filter_grad) return "no filter gradient";
  if (std::string why = im2col_limits(conv); !why.empty()) return why;
  if (std::string why = group_limits(conv); !why.empty()) return why;
  if (conv.channels / conv.groups % 8 != 0) return fmt::format("{} channels", conv.channels / conv.groups);
  if (conv.filters % 8 != 0) return fmt::format("{} filters", conv.filters);
  if (!has_gradient_tiles(conv)) return "more tiles than a schedule can name";
  return {};
}

const Family& conv_wgrad() {
  static const ConvWgrad family;
  return family;
}

}  // namespace nixie::cuda
