// Convolutions of f32 by multiply-adds on sm_90a, in all roles, in tiles that may be split along their sums.
#include "nixie/backends/cuda/families/conv/conv_ffma.h"

#include <algorithm>

#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/kernels/conv/wgrad/conv_wgrad_schedule.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

// The part of the result that a block computes at a time: 512 / warps_n rows by warps_n * 4 * thread_n columns.
struct FfmaTile {
  int warps_n = 0, thread_n = 0;
  int stages = 0;           //< that shared memory holds at once
  std::int64_t clocks = 0;  //< estimated, up to a factor that all tiles of a kernel share
  int rows() const { return 512 / warps_n; }
  int columns() const { return warps_n * 4 * thread_n; }
  std::string name() const { return fmt::format("{}x{}", rows(), columns()); }
};

bool is_gradient(const ConvProblem& conv) { return conv.role == ConvRole::filter_grad; }

int images_of(const ConvProblem& conv) { return is_gradient(conv) ? 1 : 0; }  // the operand that windows slide over

// The stride of axes merged into one, the innermost first, if they can be. Axes of one element do not matter.
std::optional<std::int64_t> common_step(const Operand& operand, const std::vector<int>& axes) {
  std::int64_t step = 0, count = 1;
  for (int axis : axes) {
    if (operand.shape[axis] == 1) continue;
    if (count > 1 && operand.strides[at(axis)] != step * count) return {};
    if (count == 1) step = operand.strides[at(axis)];
    count *= operand.shape[axis];
  }
  return count > 1 ? step : (operand.shape[1] + 3) / 4 * 4;
}

// Channels of one box of images. Along depth, rows of 32 are swizzled and shorter ones an odd number of fours long, so
// that eight rows have no bank conflict; across, neighbours are contiguous anyway.
int float_slice(const ConvProblem& conv) {
  const int channels = conv.role == ConvRole::input_grad ? conv.filters : conv.channels;
  if (is_gradient(conv)) return channels % 16 == 0 || channels > 64 ? 16 : channels;
  const int padded = (channels + 3) / 4 * 4;
  return channels % 32 == 0 || channels > 36 ? 32 : padded / 4 % 2 == 1 ? padded : padded + 4;
}

// The product of matrices that a convolution is, in the words of conv_ffma_sm90.cuh.
struct Product {
  explicit Product(const ConvProblem& conv) : layer(forward_layer(conv)), slice(float_slice(conv)) {
    const std::int64_t slices = ceil_div(layer.channels, slice) * conv.r * conv.s;
    const bool gradient = is_gradient(conv);
    rows = gradient ? layer.filters : layer.pixels;
    columns = gradient ? slices * slice : layer.filters;
    depth = gradient ? 32 : slice;
    stages = gradient ? ceil_div(layer.pixels, 32) : slices;
  }
  ForwardLayer layer;
  int slice;
  std::int64_t rows, columns, stages;
  int depth;                                                   // of a stage
  int swizzle_bytes() const { return slice == 32 ? 128 : 0; }  // slices of filter gradients are no 32

  std::int64_t tiles_m(const FfmaTile& tile) const { return ceil_div(rows, tile.rows()); }
  std::int64_t tiles_n(const FfmaTile& tile) const { return ceil_div(columns, tile.columns()); }
};

std::int64_t stage_bytes(const ConvProblem& conv, const Product& product, const FfmaTile& tile) {
  std::int64_t columns = tile.columns();
  if (is_gradient(conv) && columns % product.slice != 0)  // slices that a tile cuts are read whole
    columns = ceil_div(product.slice - 4 + columns, product.slice) * product.slice;
  return ceil_div((tile.rows() + columns) * product.depth * 4, 1024) * 1024;
}

// In hundreds: multiply-adds for each clock of a scheduler with 8, 12 or 16 columns a thread.
std::int64_t share(int thread_n) { return thread_n == 16 ? 94 : thread_n == 12 ? 92 : 90; }

// The map of the images.
TensorMap first_map(const Kernel& kernel, const ConvProblem& conv, const Product& product, const FfmaTile& tile) {
  const Operand& images = kernel.head->operands[at(images_of(conv))];
  TensorMap map = images_map(images, Dtype::f32, conv, product.layer.pad, conv.stride, product.slice,
                             is_gradient(conv) ? 32 : tile.rows());
  map.swizzle_bytes = product.swizzle_bytes();
  for (int axis : {3, 2, 0}) map.strides.push_back(u64(*common_step(images, {axis})));
  return map;
}

// The map of the filter; in a filter gradient, of dy.
TensorMap other_map(const Kernel& kernel, const ConvProblem& conv, const Product& product, const FfmaTile& tile) {
  const Operand& other = kernel.head->operands[at(1 - images_of(conv))];
  if (is_gradient(conv)) {
    TensorMap map = tiled_map(other, Dtype::f32, {u64(conv.filters), u64(product.layer.pixels)}, {32, 32}, 0);
    map.strides = {u64(*common_step(other, {3, 2, 0}))};
    return map;
  }
  const std::uint64_t channels = u64(conv.channels), filters = u64(conv.filters), taps = u64(conv.r * conv.s),
                      tap_step = u64(*common_step(other, {3, 2})), filter_step = u64(*common_step(other, {0}));
  const std::uint32_t slice = u32(product.slice);
  if (conv.role == ConvRole::input_grad) {
    TensorMap map = tiled_map(other, Dtype::f32, {channels, taps, filters}, {16, 1, slice}, 0);
    map.strides = {tap_step, filter_step};
    return map;
  }
  TensorMap map = tiled_map(other, Dtype::f32, {channels, filters / 4, 4, taps}, {slice, u32(tile.columns() / 4), 4, 1},
                            product.swizzle_bytes());
  map.strides = {4 * filter_step, filter_step, tap_step};
  return map;
}

KernelCode generate_tile(const Plan& plan, const Choice& choice, const FfmaTile& tile, const Chip& chip) {
  const Kernel& kernel = choice.kernel;
  const ConvProblem& conv = problem_of(choice);
  const Product product(conv);
  const ForwardLayer& layer = product.layer;
  const WgradSchedule schedule =
      schedule_wgrad(static_cast<int>(product.tiles_m(tile)), static_cast<int>(product.tiles_n(tile)),
                     static_cast<int>(product.stages), chip.sms);
  const auto items = static_cast<std::int64_t>(schedule.items.size()),
             splits = static_cast<std::int64_t>(schedule.splits.size());
  NhwcFunctor body = nhwc_functor(plan, kernel,
                                  {{"const int4*", "items", {Argument::kTable, 0}},
                                   {"const int4*", "splits", {Argument::kTable, items * 16}},
                                   {"const int*", "first_items", {Argument::kTable, (items + splits) * 16}},
                                   {"float*", "parts", {Argument::kScratch, 0}}},
                                  4);
  KernelCode code;
  code.source = window_defines(conv, layer.pad) +
                defines({{"CONV_ROLE", static_cast<int>(conv.role)},
                         {"CONV_C", layer.channels},
                         {"CONV_K", layer.filters},
                         {"CONV_P", layer.p},
                         {"CONV_Q", layer.q},
                         {"CONV_PIXELS", layer.pixels},
                         {"CONV_SLICE", product.slice},
                         {"CONV_WARPS_N", tile.warps_n},
                         {"CONV_THREAD_N", tile.thread_n},
                         {"CONV_STAGES", tile.stages}}) +
                body.text + "#include \"conv_ffma_sm90.cuh\"\n";
  code.variant = "conv_ffma_sm90 " + tile.name();
  append_words(code.table, schedule.items);
  append_words(code.table, schedule.splits);
  append_words(code.table, schedule.first_items);
  code.arguments = std::move(body.arguments);
  code.scratch_bytes = std::int64_t{4} * schedule.slots * tile.rows() * tile.columns();
  code.maps = {first_map(kernel, conv, product, tile), other_map(kernel, conv, product, tile)};
  code.launches.push_back({.entry = "conv_ffma",
                           .blocks = static_cast<std::int64_t>(schedule.first_items.size()) - 1,
                           .threads = 384,
                           .shared_bytes = 1024 + tile.stages * stage_bytes(conv, product, tile),
                           .maps = {0, 1}});
  if (splits > 0)
    code.launches.push_back(
        {.entry = "conv_ffma_reduce", .blocks = splits, .threads = 256, .blocks_y = 2 * tile.thread_n});
  return code;
}

// Whatever the tile, the schedule keeps all SMs busy: what counts is the work at the edges, and how much a
// thread makes of a load.
std::vector<FfmaTile> ffma_tiles(const ConvProblem& conv, const Chip& chip) {
  const Product product(conv);
  std::vector<FfmaTile> tiles;
  for (int warps_n : {2, 4, 1, 8})
    for (int thread_n : {16, 12, 8}) {
      FfmaTile tile{.warps_n = warps_n, .thread_n = thread_n};
      const std::int64_t tiles_m = product.tiles_m(tile), tiles_n = product.tiles_n(tile);
      if (tiles_m > kMostTileRows || tiles_n > kMostTileColumns) continue;
      const std::int64_t stages = ceil_div(tiles_m * tiles_n * product.stages, chip.sms);
      tile.clocks = (stages * product.depth + 64) * tile.rows() * tile.columns() / share(thread_n);
      tile.stages = static_cast<int>(
          std::min<std::int64_t>(8, (dynamic_shared_bytes(chip) - 1024) / stage_bytes(conv, product, tile)));
      // AlexNet's first layer: 64x512 in two stages 0.83 ms, 64x256 in five 0.71.
      if (is_gradient(conv) && tile.stages < 3) tile.clocks += tile.clocks / 6;
      tiles.push_back(tile);
    }
  std::ranges::stable_sort(tiles, {}, &FfmaTile::clocks);
  return tiles;
}

// Whether an operand can be read as it is: channels side by side, all else in steps of 16 bytes; taps of filters and
// pixels of dy in even steps, too.
bool reads_floats(const ConvProblem& conv, const Operand& operand, bool images) {
  if (operand.strides[1] != 1 || operand.offset % 4 != 0) return false;
  for (int axis : {0, 2, 3})
    if (operand.shape[axis] > 1 && (operand.strides[at(axis)] % 4 != 0 || operand.strides[at(axis)] <= 0)) return false;
  return images || common_step(operand, is_gradient(conv) ? std::vector{3, 2, 0} : std::vector{3, 2}).has_value();
}

}  // namespace

std::string ffma_limits(const ConvProblem& conv, const Chip& chip) {
  if (std::string why = im2col_limits(conv); !why.empty()) return why;
  // Along depth a tail reads zero; across, sums are stored by fours.
  if (conv.filters % 4 != 0) return fmt::format("{} filters", conv.filters);
  if (conv.channels % 4 != 0 && conv.role != ConvRole::output) return fmt::format("{} channels", conv.channels);
  return ffma_tiles(conv, chip).empty() ? "more tiles than a schedule can name" : "";
}

// 128 multiply-adds a clock; sums that several blocks share are added by another launch, which not all layers need. On
// an H200 41 layers took 0.6 to 1.2 of it, 1.0 in the median.
Work ffma_work(const ConvProblem& conv, const Chip& chip) {
  return {.clocks = static_cast<double>(ffma_tiles(conv, chip).front().clocks) * 100 / 128, .launches = 1.4};
}

namespace {

class ConvFfma final : public Family {
 public:
  std::string_view name() const override { return "conv_ffma_sm90"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    if (!chip.has_wgmma()) return Refusal{"needs sm_90a"};
    const ConvMatch found = conv_problem(plan, kernel);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& conv = std::get<ConvProblem>(found);
    if (!all_f32(plan, *kernel.head)) return Refusal{"operands that are not f32"};
    if (multiplies_tf32(*kernel.head)) return Refusal{"tf32, which tensor cores multiply"};
    if (const std::string why = ffma_limits(conv, chip); !why.empty()) return Refusal{why};
    Choice choice{.kernel = kernel, .sizes = conv};
    for (int i : {0, 1}) {
      const bool reads = reads_floats(conv, kernel.head->operands[at(i)], i == images_of(conv));
      if (!reads && conv.channels % 4 != 0) return Refusal{fmt::format("{} channels in another layout", conv.channels)};
      choice.layouts.push_back(reads ? OperandLayout::as_it_is : OperandLayout::channels_last);
    }
    return choice;
  }
  std::vector<Algorithm> algorithms(const Plan&, const Choice& choice, const Chip& chip) const override {
    return algorithms_of(ffma_tiles(problem_of(choice), chip));
  }
  std::string operation(const Plan&, const Choice& choice) const override { return operation_text(problem_of(choice)); }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip,
                      const std::string& tile) const override {
    return generate_tile(plan, choice, tile_named(ffma_tiles(problem_of(choice), chip), tile), chip);
  }
};

}  // namespace

const Family& conv_ffma() {
  static const ConvFfma family;
  return family;
}

}  // namespace nixie::cuda
