// Forward convolutions, input gradients and large matrix products in 16 bits on sm_90a, in tiles (implicit GEMM).
#include <algorithm>

#include "nixie/backends/cuda/families/conv/conv_fprop.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/parts.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/products/product.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/ops/elementwise.h"

namespace nixie::cuda {
namespace {

// Words of sums and accumulators that a thread may hold where it leaves parts, with one or two consumers and with
// three, which have no room for what the epilogue loads; and with the loads that are on their way.
constexpr int kMostHeld = 128, kMostHeldByThree = 96, kMostHeldAndLoaded = 141;
// Loads of f32 by channel, beside the sums of three products in tiles of more than 64 columns.
constexpr int kMostLoadsByChannel = 6;

// Groups of rounded sums are parts of stages, whose terms are in the order that RoundedProduct says.
std::string limits_of_sums(const ConvProblem& conv) {
  if (conv.sums_every == 0) return {};
  if (conv.role == ConvRole::filter_grad || conv.planes > 0) return "rounded sums of another order";
  const bool one_run = conv.r * conv.s * conv.groups == 1;  // zeros behind it change no sum
  return conv.summed() % 64 != 0 && !one_run ? fmt::format("rounded sums of {} channels", conv.summed()) : "";
}

// A matrix product stores its results in pieces.
std::string limits_of_product(const ConvProblem& conv) {
  if (std::string why = limits_of_sums(conv); !why.empty()) return why;
  return conv.filters % 8 != 0 ? fmt::format("{} columns", conv.filters) : fprop_limits(conv);
}

// The convolution of a kernel, its sums rounded or not.
ConvMatch convolution_of(const Plan& plan, const Kernel& kernel, const Chip& chip, Groups groups) {
  const auto* rounded = std::get_if<RoundedProduct>(&kernel.head->op);
  if (!rounded) return conv_in_16_bits(plan, kernel, chip, fprop_limits, groups);
  Kernel plain = kernel;
  plain.head->op = std::get<Conv>(rounded->product);
  ConvMatch found = conv_in_16_bits(plan, plain, chip, fprop_limits, groups);
  auto* conv = std::get_if<ConvProblem>(&found);
  if (!conv) return found;
  conv->sums_every = rounded->sums.every;
  const std::string why = limits_of_sums(*conv);
  return why.empty() ? found : Refusal{why};
}

// Whether neighbouring channels of results are stored in pieces
// of 16 bytes, or are eights that are no neighbours in memory.
bool stores_pieces(const Kernel& kernel) {
  if (product_in<Matmul>(kernel.head->op)) return true;
  if (kernel.domain[1] % 8 != 0) return false;
  return std::ranges::all_of(kernel.stores, [&](const Access& store) {
    if (store.strides[1] != 1) return true;
    bool aligned = store.offset % 8 == 0 &&
                   (store.inside.empty() || store.inside[1] == std::pair(std::int64_t{0}, kernel.domain[1]));
    for (int axis : {0, 2, 3}) aligned = aligned && (kernel.domain[axis] == 1 || store.strides[at(axis)] % 8 == 0);
    return aligned;
  });
}

// Whether results are neighbours of each other in memory, as those of a phase of a strided gradient are not.
bool stores_channels_last(const Kernel& kernel) {
  return std::ranges::all_of(kernel.stores, [&](const Access& store) {
    return product_in<Matmul>(kernel.head->op) || is_channels_last(kernel.domain, store.strides, store.offset);
  });
}

// Loads of the epilogue that are another number for each of a lane's 8 channels.
std::int64_t loads_by_channel(const Kernel& kernel) {
  return std::ranges::count_if(kernel.loads,
                               [](const Access& load) { return load.strides.size() > 1 && load.strides[1] != 0; });
}

// Words of sums and accumulators that a thread holds where it leaves parts.
int held_words(const Choice& choice, const Tile& tile) {
  return tile.mma_m * tile.n / 2 + static_cast<int>(ceil_div(tile.n, 64)) * 8 * accumulated_words(choice);
}

// Rows of a lane whose loads are on their way beside them; none fits: 0.
int rows_ahead(const Plan& plan, const Choice& choice, const Tile& tile) {
  const LoadedWords loaded = loaded_words(plan, choice.kernel);
  if (loaded.of_pixels == 0) return 1;
  const int room = kMostHeldAndLoaded - held_words(choice, tile) - loaded.of_channels;
  return std::clamp(room / loaded.of_pixels, 0, 4);
}

// An epilogue's clocks for each number that it stores, if it loads images to accumulate reductions: measured on an
// H200, 9,000 for a tile of 128 x 128.
constexpr double kClocksOfAccumulated = 0.55;

// The parts that a thread accumulates stay in registers, beside the sums of its tile, which no other block shares.
std::vector<Tile> tiles_of(const Plan& plan, const Choice& choice, const Chip& chip) {
  const bool may_split = !leaves_of_channels(choice) && choice.kernel.head->dtype != Dtype::i32 &&
                         problem_of(choice).sums_every == 0;  // parts are floats, and added
  std::vector<Tile> tiles = forward_tiles(problem_of(choice), chip, may_split);
  if (problem_of(choice).products() == 3) {  // which leave few registers
    const bool loads_much = loads_by_channel(choice.kernel) > kMostLoadsByChannel,
               is_in_steps = !stores_channels_last(choice.kernel);
    std::erase_if(tiles, [&](const Tile& tile) {
      return (loads_much && tile.mma_m * tile.n > 64) || (is_in_steps && tile.mma_m > 1);
    });
  }
  if (!leaves_of_channels(choice)) return tiles;
  const bool full = !choice.kernel.loads.empty();
  const ForwardLayer layer = forward_layer(problem_of(choice));
  std::erase_if(tiles, [&](const Tile& tile) {
    const int most = tile.consumers < 3 ? kMostHeld : full ? 0 : kMostHeldByThree;
    return held_words(choice, tile) > most || rows_ahead(plan, choice, tile) == 0 ||
           layer.columns(tile) * tile.together() > chip.sms;
  });
  if (!full) return tiles;
  for (Tile& tile : tiles) {
    const double epilogue = kClocksOfAccumulated * tile.rows() * tile.n * (tile.in_turn ? 2 : 1);
    tile.clocks = forward_clocks(layer, tile, static_cast<std::int64_t>(epilogue), chip);
  }
  std::ranges::stable_sort(tiles, {}, &Tile::clocks);
  return tiles;
}

// The clocks of a choice's fastest tile.
double clocks_of(const Plan& plan, const Choice& choice, const Chip& chip) {
  return static_cast<double>(tiles_of(plan, choice, chip).front().clocks);
}

// Rows of tiles of 8-bit products that go together.
constexpr int kTogether = 8;

// The operands' types as wgmma names them.
std::string types_of_pairs(const ConvProblem& conv) {
  if (!conv.pairs_of) return "";
  const auto name = [](Dtype dtype) {
    return dtype == Dtype::f8e4m3 ? "e4m3" : dtype == Dtype::f8e5m2 ? "e5m2" : dtype == Dtype::u8 ? "u8" : "s8";
  };
  return defines({{"NIXIE_INTEGERS", !conv.promotes()}}) +
         fmt::format("#define NIXIE_BYTES_A \"{}\"\n#define NIXIE_BYTES_B \"{}\"\n", name((*conv.pairs_of)[0]),
                     name((*conv.pairs_of)[1]));
}

// How rounded sums are merged, in parts of so many stages; those of 8-bit floats are added, all in one.
std::string sums_code(const ConvProblem& conv, const Kernel& kernel) {
  const auto* rounded = std::get_if<RoundedProduct>(&kernel.head->op);
  const bool by_conversion = rounded && rounded->sums.merge->formula.body.size() == 4;  // sum, group, both, rounded
  return defines({{"CONV_GROUP", rounded           ? conv.sums_every
                                 : conv.promotes() ? 64
                                                   : 0},
                  {"CONV_ROUNDS", rounded != nullptr},
                  {"CONV_LATE", by_conversion},
                  {"CONV_PART", conv.has_parts() ? Sums::kPart / 64 : 0}}) +
         (rounded ? merged_function(rounded->sums, "__device__ __forceinline__") : "");
}

KernelCode generate_tile(const Plan& plan, const Choice& choice, const Tile& tile, const Chip& chip) {
  const ConvProblem& conv = problem_of(choice);
  const ForwardLayer layer = forward_layer(conv);
  const int slice = layer.slice;

  const bool pieces = stores_pieces(choice.kernel);
  KernelCode code;
  std::vector<Pointer> pointers;
  if (tile.splits > 1) {
    const std::int64_t tiles = layer.tiles(tile), counters = round_up(4 * tiles * tile.consumers, 256);
    pointers.push_back({"u32*", "arrived", {Argument::kScratch, 0}});
    pointers.push_back({"float*", "split_parts", {Argument::kScratch, counters}});
    code.scratch_bytes = counters + 4 * tiles * tile.splits * tile.rows() * tile.n;
  }
  NhwcFunctor body =
      nhwc_functor(plan, choice.kernel, pointers, pieces ? 8 : 1, {.fixed = true, .leaves = choice.leaves});
  code.source = types_of_pairs(conv) + window_defines(conv, layer.pad) + tile_defines(conv, tile, slice) +
                products_of_columns({tile.n}) +
                defines({{"CONV_C", layer.channels},
                         {"CONV_K", layer.filters},
                         {"CONV_GROUPS", layer.groups},
                         {"CONV_P", layer.p},
                         {"CONV_Q", layer.q},
                         {"CONV_PIXELS", layer.pixels},
                         {"CONV_IN_TURN", tile.in_turn},
                         {"CONV_RESIDENT", tile.resident},
                         {"CONV_TOGETHER", conv.pairs_of && !tile.resident ? kTogether : 1},
                         {"CONV_SPLITS", tile.splits},
                         {"CONV_PAIRS", tile.paired},
                         {"CONV_LANES", pieces ? 8 : 1},
                         {"CONV_TRANSPOSED_W", layer.transposed},
                         {"CONV_TRANSPOSED_X", conv.transposed_x}}) +
                (leaves_of_channels(choice) ? defines({{"CONV_AHEAD", rows_ahead(plan, choice, tile)}}) : "") +
                body.text + sums_code(conv, choice.kernel) + "#include \"conv_fprop_sm90.cuh\"\n";
  code.arguments = std::move(body.arguments);
  code.variant = fmt::format("conv_fprop_sm90 {}{}", tile.name(), of_products(conv));
  const std::vector<std::uint64_t> w_sizes{u64(conv.channels / conv.groups), u64(conv.r * conv.s), u64(conv.filters)};
  const std::vector<std::uint32_t> w_box =
      layer.transposed ? std::vector<std::uint32_t>{64, 1, 64}
                       : std::vector<std::uint32_t>{u32(slice), 1, u32(tile.n / tile.together())};
  for (int plane = 0; plane < planes_of(conv.products()); ++plane) {
    Operand x = plane_of(choice, 0, plane), w = plane_of(choice, 1, plane);
    if (conv.pairs_of) x.offset /= 2, w.offset /= 2;
    code.maps.push_back(conv.transposed_x
                            ? tiled_map(x, conv.dtype, {u64(conv.images), u64(layer.channels)}, {64, 64}, 128)
                            : images_map(x, conv.dtype, conv, layer.pad, conv.stride, slice, tile.rows()));
    code.maps.push_back(tiled_map(w, conv.dtype, w_sizes, w_box, slice * 2));
  }
  const std::int64_t stage_rows = tile.rows() + (tile.resident ? 0 : layer.filter_rows(tile));
  code.launches.push_back(
      {.entry = "conv_fprop",
       .blocks = tile.resident
                     ? forward_blocks(layer, tile, chip)
                     : blocks_for(choice, layer.tiles(tile) * tile.splits, layer.columns(tile) * tile.together(), chip),
       .threads = (tile.consumers + 1) * 128,
       .shared_bytes = 1024 + tile.stages * planes_of(conv.products()) * stage_rows * layer.stage_terms * 2 +
                       resident_bytes(layer, tile) + tile.consumers * 16384,
       .maps = all_maps(code)});
  return code;
}

class ConvFprop final : public Family {
 public:
  std::string_view name() const override { return "conv_fprop_sm90"; }
  std::string_view unit() const override { return kForwardClocks; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    return match_forward(plan, kernel, chip);
  }
  std::vector<Algorithm> algorithms(const Plan& plan, const Choice& choice, const Chip& chip) const override {
    return algorithms_of(tiles_of(plan, choice, chip));
  }
  std::string operation(const Plan&, const Choice& choice) const override { return operation_text(problem_of(choice)); }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip,
                      const std::string& tile) const override {
    return generate_tile(plan, choice, tile_named(tiles_of(plan, choice, chip), tile), chip);
  }
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    const ConvProblem& conv = problem_of(choice);
    if (conv.products() != 1 || conv.pairs_of || conv.sums_every > 0 || !stores_pieces(choice.kernel)) return {};
    std::optional<Absorption> with = with_parts(grouping, choice, other, parts_of_convolution(choice, grouping.chip));
    if (!with || !leaves_of_channels(with->choice)) return with;
    if (tiles_of(grouping.plan, with->choice, grouping.chip).empty()) return {};
    return parts_pay(grouping, choice, with->choice, clocks_of) ? with : std::nullopt;
  }
};

}  // namespace

Match match_forward(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& further) {
  if (!kernel.head || !is_product(*kernel.head)) return Refusal{"no convolution or matrix product"};
  if (!chip.has_wgmma()) return Refusal{"needs sm_90a"};
  const bool is_matrix = product_in<Matmul>(kernel.head->op);
  const ConvMatch found = is_matrix ? product_problem(plan, kernel, chip, limits_of_product)
                                    : convolution_of(plan, kernel, chip, further ? Groups::one : Groups::any);
  if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
  const auto& conv = std::get<ConvProblem>(found);
  if (!is_matrix && conv.planes == 0 && !all_operands_are(conv.dtype, plan, *kernel.head))
    return Refusal{"operands of two types"};
  if (further && conv.pairs_of) return Refusal{"8-bit operands"};
  if (further && conv.sums_every > 0) return Refusal{"rounded sums"};
  if (const std::string why = further ? further(conv) : ""; !why.empty()) return Refusal{why};
  Choice choice{.kernel = kernel, .sizes = conv};
  if (is_matrix && (conv.pairs_of || conv.sums_every > 0)) {
    const auto layout = [](bool transposed) {
      return transposed ? OperandLayout::as_it_is : OperandLayout::terms_inside;
    };
    choice.layouts = {layout(conv.transposed_x), layout(conv.role == ConvRole::input_grad)};
  }
  if (is_matrix) return choice;
  const Operand& images = kernel.head->operands[0];
  if (further && is_in_pieces(images) && !is_channels_last(images.shape, images.strides, images.offset))
    return Refusal{"images in steps of their own"};
  if (further && !stores_pieces(kernel)) return Refusal{"results in steps of their own"};
  choice.layouts = {further ? OperandLayout::channels_last : OperandLayout::pieces, OperandLayout::channels_last};
  return choice;
}

bool beats_library(const Plan& plan, const Kernel& kernel, const Chip& chip) {
  if (!chip.has_wgmma() || !kernel.head || !all_f32(plan, *kernel.head)) return false;
  const ConvMatch found = product_problem(plan, kernel, chip, tensor_core_limits);
  return std::holds_alternative<ConvProblem>(found);
}

const Family& conv_fprop() {
  static const ConvFprop family;
  return family;
}

}  // namespace nixie::cuda
