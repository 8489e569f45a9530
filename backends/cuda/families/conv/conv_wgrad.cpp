// Filter gradients in 16 bits on sm_90a, with the bias gradient, and the matrix products that update linear layers, in
// tiles that may be split along their sums.

#include <algorithm>

#include "nixie/backends/cuda/families/channel_sum.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/conv/wgrad_patches.h"
#include "nixie/backends/cuda/kernels/conv/wgrad/conv_wgrad_schedule.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// Bytes of memory that the epilogue reads and writes for each element.
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

std::optional<PatchTile> patch_of(const Plan& plan, const Choice& choice, const Chip& chip) {
  return gradient_patch(problem_of(choice), chip, epilogue_bytes(plan, choice.kernel), !choice.channel_sum);
}

constexpr int kOnes = 8;  // columns of ones, by which the bias gradient is a product

// The differences of conv_wgrad_sm90.cuh and conv_wgrad_halo_sm90.cuh.
struct Program {
  std::string file = {}, tile = {}, defines = {};
  ConvProblem conv = {};  // as the program sees it
  WgradSchedule schedule = {};
  std::int64_t tiles_m = 0;  // rows of tiles
  int rows = 0;              // of a tile
  int consumers = 0, sharing = 0, lines = 1;
  int cluster = 1;       // blocks that share items
  int mma_m = 0, n = 0;  // of a consumer
  std::int64_t ring_bytes = 0;
  std::vector<TensorMap> maps = {};
  std::int64_t part_floats() const { return std::int64_t{64} * sharing * mma_m * n; }
};

Program of_tile(const Plan& plan, const Choice& choice, const Tile& tile, const Chip& chip) {
  const ConvProblem& conv = problem_of(choice);
  const std::int64_t pixels = std::int64_t{1} * conv.images * conv.p * conv.q;
  const int slice = gradient_slice(conv), planes = planes_of(conv.products());
  Program program{
      .file = "conv_wgrad_sm90",
      .tile = tile.name(),
      .defines = tile_defines(conv, tile, slice) + defines({{"CONV_IN_TURN", tile.in_turn}, {"CONV_TURNED", 0}}),
      .conv = conv,
      .schedule = gradient_schedule(conv, tile, chip, epilogue_bytes(plan, choice.kernel)),
      .tiles_m = gradient_rows(conv, tile),
      .rows = tile.rows(),
      .consumers = tile.consumers,
      .sharing = tile.sharing(),
      .cluster = tile.splits,
      .mma_m = tile.mma_m,
      .n = tile.n,
      .ring_bytes = std::int64_t{tile.stages} * planes * (tile.rows() + tile.n) * 128};
  for (int plane = 0; plane < planes; ++plane) {
    const Operand &dy = plane_of(choice, 0, plane), &x = plane_of(choice, 1, plane);
    program.maps.push_back(images_map(x, conv.dtype, conv, conv.pad, conv.stride, slice, 64));
    program.maps.push_back(tiled_map(dy, conv.dtype, {u64(conv.filters), u64(pixels)}, {64, 64}, 128));
  }
  return program;
}

Program of_patch(const Choice& choice, const PatchTile& tile, const Chip& chip) {
  const ConvProblem conv = tile.turned ? turned(problem_of(choice)) : problem_of(choice);
  const WgradPatch& patch = tile.patch;
  Program program{.file = "conv_wgrad_halo_sm90",
                  .tile = fmt::format("{} of {}x{}x{}{}", tile.name(), patch.together, patch.wide(), patch.high,
                                      tile.turned ? " turned" : ""),
                  .defines = defines({{"CONV_SLICE", tile.slice},
                                      {"CONV_TOGETHER", patch.together},
                                      {"CONV_HIGH", patch.high},
                                      {"CONV_TURNED", tile.turned},
                                      {"CONV_DOWN", patch.down},
                                      {"CONV_RUN", patch.run},
                                      {"CONV_LINES", patch.lines},
                                      {"CONV_CONSUMERS", tile.consumers},
                                      {"CONV_MMA_M", tile.mma_m},
                                      {"CONV_TILE_N", tile.n()},
                                      {"CONV_STAGES", tile.stages},
                                      {"NIXIE_BF16", conv.dtype == Dtype::bf16}}),
                  .conv = conv,
                  .schedule = patch_schedule(conv, tile, chip),
                  .tiles_m = patch_tile_rows(conv, tile),
                  .rows = tile.rows(),
                  .consumers = tile.consumers,
                  .sharing = tile.consumers,
                  .lines = patch.lines,
                  .mma_m = tile.mma_m,
                  .n = tile.n(),
                  .ring_bytes = tile.stages * tile.stage_bytes()};
  const Operand &dy = choice.kernel.head->operands[tile.turned ? 1 : 0],
                &x = choice.kernel.head->operands[tile.turned ? 0 : 1];
  program.maps.push_back(patches_map(
      x, conv.dtype, {u32(tile.slice), u32(patch.together), u32(patch.columns()), u32(patch.rows())}, 2 * tile.slice));
  program.maps.push_back(
      patches_map(dy, conv.dtype, {64, u32(patch.together), u32(patch.wide()), u32(patch.high)}, 128));
  return program;
}

// The groups of `threads` that share the parts of a tile, as many as have 16 parts each and fit into a block.
int ways_of(const WgradSchedule& schedule, int threads) {
  constexpr int kAtOnce = 16, kMostThreads = 512;
  int most = 1;
  for (const WgradSplit& split : schedule.splits) most = std::max(most, split.count);
  return std::clamp((most - 1) / kAtOnce + 1, 1, std::max(1, kMostThreads / threads));
}

KernelCode generate_program(const Plan& plan, const Choice& choice, Program program) {
  const ConvProblem& conv = program.conv;
  const bool sums = choice.channel_sum.has_value();
  const WgradSchedule& schedule = program.schedule;
  const auto items = static_cast<std::int64_t>(schedule.items.size()),
             splits = static_cast<std::int64_t>(schedule.splits.size());

  // Parts are added by another kernel, whose many threads hide memory's latency by themselves.
  const bool prefetches = conv.row_channels == 0 && !choice.kernel.loads.empty() &&
                          std::ranges::any_of(schedule.items, [](const WgradItem& item) { return item.slot < 0; });
  const std::int64_t part_bytes = 4 * schedule.slots * program.part_floats();
  const int ways = ways_of(schedule, program.sharing * 128);
  NhwcFunctor body = nhwc_functor(
      plan, choice.kernel,
      {{"float*", "db",
        sums ? Argument{choice.channel_sum->slot, choice.channel_sum->offset * 4} : Argument{Argument::kScratch, 0}},
       {"const int4*", "items", {Argument::kTable, 0}},
       {"const int4*", "splits", {Argument::kTable, items * 16}},
       {"const int*", "first_items", {Argument::kTable, (items + splits) * 16}},
       {"float*", "parts", {Argument::kScratch, 0}},
       {"float*", "bias_parts", {Argument::kScratch, part_bytes}}},
      conv.row_channels ? 1 : 4, {.prefetch = prefetches});
  KernelCode code;
  code.source = window_defines(conv, conv.pad) + program.defines + products_of_columns({program.n, kOnes}) +
                defines({{"CONV_C", conv.channels / conv.groups},
                         {"CONV_K", conv.filters / conv.groups},
                         {"CONV_GROUPS", conv.groups},
                         {"CONV_P", conv.p},
                         {"CONV_Q", conv.q},
                         {"CONV_ITEMS", items},
                         {"CONV_SPLITS", splits},
                         {"CONV_WAYS", ways},
                         {"CONV_BIAS_GRAD", sums},
                         {"CONV_CLUSTER", program.cluster},
                         {"CONV_PREFETCH", prefetches},
                         {"CONV_ROW_CHANNELS", conv.row_channels},
                         {"CONV_ROW_S", conv.row_s}}) +
                body.text + fmt::format("#include \"{}.cuh\"\n", program.file);
  code.variant = fmt::format("{} {}{}{}", program.file, program.tile, sums ? " with bias" : "", of_products(conv));
  append_words(code.table, schedule.items);
  append_words(code.table, schedule.splits);
  append_words(code.table, schedule.first_items);
  code.arguments = std::move(body.arguments);
  code.scratch_bytes = part_bytes + (sums ? items * program.lines * program.rows * 4 : 0);
  code.maps = std::move(program.maps);
  code.launches.push_back({.entry = "conv_wgrad",
                           .blocks = static_cast<std::int64_t>(schedule.first_items.size()) - 1,
                           .threads = (program.consumers + 1) * 128,
                           .shared_bytes = static_cast<int>(1024 + program.ring_bytes + program.consumers * 8192),
                           .maps = all_maps(code)});
  const std::int64_t reduced = splits + (sums ? program.tiles_m * program.rows / 32 : 0);
  if (reduced > 0)
    code.launches.push_back({.entry = "conv_wgrad_reduce",
                             .blocks = reduced,
                             .threads = program.sharing * 128 * ways,
                             .blocks_y = program.mma_m * program.n / 8});
  return code;
}

class ConvWgrad final : public Family {
 public:
  std::string_view name() const override { return "conv_wgrad_sm90"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    if (!chip.has_wgmma()) return Refusal{"needs sm_90a"};
    const bool product = kernel.head && std::holds_alternative<Matmul>(kernel.head->op);
    const ConvMatch found = product ? product_problem(plan, kernel, chip, wgrad_limits)
                                    : conv_in_16_bits(plan, kernel, chip, wgrad_limits, Groups::any);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& conv = std::get<ConvProblem>(found);
    if (product) return Choice{.kernel = kernel, .sizes = conv};
    if (conv.planes == 0 && !all_operands_are(conv.dtype, plan, *kernel.head)) return Refusal{"operands of two types"};
    return Choice{.kernel = kernel, .sizes = conv, .layouts = {OperandLayout::channels_last, OperandLayout::pieces}};
  }
  std::vector<Algorithm> algorithms(const Plan& plan, const Choice& choice, const Chip& chip) const override {
    std::vector<Algorithm> all = algorithms_of(tiles_of(plan, choice, chip));
    if (const auto patch = patch_of(plan, choice, chip)) all.push_back({patch->name(), patch->clocks});
    std::ranges::stable_sort(all, {}, &Algorithm::estimate);
    return all;
  }
  std::string operation(const Plan&, const Choice& choice) const override { return operation_text(problem_of(choice)); }
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    return with_channel_sum(grouping, choice, other);
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip,
                      const std::string& name) const override {
    const auto patch = patch_of(plan, choice, chip);
    return generate_program(plan, choice,
                            patch && patch->name() == name
                                ? of_patch(choice, *patch, chip)
                                : of_tile(plan, choice, tile_named(tiles_of(plan, choice, chip), name), chip));
  }
};

}  // namespace

const Family& conv_wgrad() {
  static const ConvWgrad family;
  return family;
}

}  // namespace nixie::cuda
