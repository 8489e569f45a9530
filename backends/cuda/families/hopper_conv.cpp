// Which convolutions Hopper's kernels take, and their programs: tiles, tensor maps, shared memory.
#include "nixie/backends/cuda/families/hopper_conv.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "nixie/backends/cuda/families/conv_tma.h"
#include "nixie/backends/cuda/families/hopper_halo.h"
#include "nixie/backends/cuda/families/hopper_rows.h"
#include "nixie/backends/cuda/families/hopper_tiles.h"
#include "nixie/backends/cuda/kernels/conv/conv_wgrad_schedule.h"

namespace nixie::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Dtype dtype_of(const Plan& plan, int slot) { return plan.slots[at(slot)].dtype; }

std::uint64_t u64(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

std::vector<int> all_maps(const KernelCode& code) {
  std::vector<int> maps(code.maps.size());
  std::iota(maps.begin(), maps.end(), 0);
  return maps;
}
const char* of_products(const HopperConv& conv) { return conv.products == 3 ? ", 3 products" : ""; }

std::string tile_defines(const HopperConv& conv, const Tile& tile, int slice) {
  return defines({{"CONV_SLICE", slice},
                  {"CONV_CONSUMERS", tile.consumers},
                  {"CONV_MMA_M", tile.mma_m},
                  {"CONV_TILE_N", tile.n},
                  {"CONV_STAGES", tile.stages},
                  {"CONV_PRODUCTS", conv.products},
                  {"NIXIE_BF16", conv.dtype == Dtype::bf16}});
}

// ---- Forward and input gradient ----
KernelCode generate_forward(const Plan& plan, const Kernel& kernel, const HopperConv& conv, const Tile& tile) {
  const ForwardLayer layer = forward_layer(conv);
  const int slice = layer.slice;
  const std::int64_t rows_b = layer.transposed ? ceil_div(tile.n, 64) * 64 : tile.n;

  PixelBody body = pixel_body(plan, kernel);
  KernelCode code;
  code.source = window_defines(conv, layer.pad) + tile_defines(conv, tile, slice) +
                defines({{"CONV_C", layer.channels},
                         {"CONV_K", layer.filters},
                         {"CONV_P", layer.p},
                         {"CONV_Q", layer.q},
                         {"CONV_PIXELS", layer.pixels},
                         {"CONV_TRANSPOSED_W", layer.transposed}}) +
                body.text + "#include \"conv_fprop_sm90.cuh\"\n";
  code.arguments = std::move(body.arguments);
  code.variant = fmt::format("conv_fprop_sm90 {}x{}{}", tile.rows(), tile.n, of_products(conv));
  const std::vector<std::uint64_t> w_sizes{u64(conv.channels), u64(conv.r * conv.s), u64(conv.filters)};
  const std::vector<std::uint32_t> w_box =
      layer.transposed ? std::vector<std::uint32_t>{64, 1, 64} : std::vector<std::uint32_t>{u32(slice), 1, u32(tile.n)};
  for (int plane = 0; plane < planes_of(conv.products); ++plane) {
    const Operand &x = kernel.head->operands[at(2 * plane)], &w = kernel.head->operands[at(2 * plane + 1)];
    code.maps.push_back(images_map(x, conv.dtype, conv, layer.pad, conv.stride, slice, tile.rows()));
    code.maps.push_back(tiled_map(w, conv.dtype, w_sizes, w_box, slice * 2));
  }
  const std::int64_t tiles = ceil_div(layer.pixels, tile.rows()) * ceil_div(layer.filters, tile.n);
  code.launches.push_back(
      {.entry = "conv_fprop",
       .blocks = std::min<std::int64_t>(tiles, kMultiprocessors),
       .threads = (tile.consumers + 1) * 128,
       .shared_bytes =
           1024 + tile.stages * planes_of(conv.products) * (tile.rows() + rows_b) * 128 + tile.consumers * 16384,
       .maps = all_maps(code)});
  return code;
}

// ---- Filter gradient ----
KernelCode generate_filter_grad(const Plan& plan, const Kernel& kernel, const HopperConv& conv, const Tile& tile) {
  const std::int64_t pixels = std::int64_t{1} * conv.images * conv.p * conv.q, stages = ceil_div(pixels, 64);
  const int slice = slice_of(conv.channels);
  const std::int64_t columns = std::int64_t{1} * conv.r * conv.s * conv.channels;
  const int rows = static_cast<int>(ceil_div(conv.filters, tile.rows()));
  const WgradSchedule schedule =
      schedule_wgrad(rows, static_cast<int>(ceil_div(columns, tile.n)), static_cast<int>(stages), kMultiprocessors);
  const auto items = static_cast<std::int64_t>(schedule.items.size()),
             splits = static_cast<std::int64_t>(schedule.splits.size());

  const std::int64_t part_bytes = std::int64_t{4} * schedule.slots * tile.rows() * tile.n;
  const Access& last = kernel.stores.back();
  PixelBody body = pixel_body(
      plan, kernel,
      {{"float*", "db", conv.bias_grad ? Argument{last.slot, last.offset * 4} : Argument{Argument::kScratch, 0}},
       {"const int4*", "items", {Argument::kTable, 0}},
       {"const int4*", "splits", {Argument::kTable, items * 16}},
       {"const int*", "first_items", {Argument::kTable, (items + splits) * 16}},
       {"float*", "parts", {Argument::kScratch, 0}},
       {"float*", "bias_parts", {Argument::kScratch, part_bytes}}},
      conv.row_channels ? 1 : 4);
  KernelCode code;
  code.source = window_defines(conv, conv.pad) + tile_defines(conv, tile, slice) +
                defines({{"CONV_C", conv.channels},
                         {"CONV_K", conv.filters},
                         {"CONV_P", conv.p},
                         {"CONV_Q", conv.q},
                         {"CONV_ITEMS", items},
                         {"CONV_SPLITS", splits},
                         {"CONV_BIAS_GRAD", conv.bias_grad},
                         {"CONV_ROW_CHANNELS", conv.row_channels},
                         {"CONV_ROW_S", conv.row_s}}) +
                body.text + "#include \"conv_wgrad_sm90.cuh\"\n";
  code.variant = fmt::format("conv_wgrad_sm90 {}x{}{}{}", tile.rows(), tile.n, conv.bias_grad ? " with bias" : "",
                             of_products(conv));
  append_words(code.table, schedule.items);
  append_words(code.table, schedule.splits);
  append_words(code.table, schedule.first_items);
  code.arguments = std::move(body.arguments);
  code.scratch_bytes = part_bytes + (conv.bias_grad ? items * tile.rows() * 4 : 0);
  for (int plane = 0; plane < planes_of(conv.products); ++plane) {
    const Operand &dy = kernel.head->operands[at(2 * plane)], &x = kernel.head->operands[at(2 * plane + 1)];
    code.maps.push_back(images_map(x, conv.dtype, conv, conv.pad, conv.stride, slice, 64));
    code.maps.push_back(tiled_map(dy, conv.dtype, {u64(conv.filters), u64(pixels)}, {64, 64}, 128));
  }
  code.launches.push_back(
      {.entry = "conv_wgrad",
       .blocks = static_cast<std::int64_t>(schedule.first_items.size()) - 1,
       .threads = (tile.consumers + 1) * 128,
       .shared_bytes =
           1024 + tile.stages * planes_of(conv.products) * (tile.rows() + tile.n) * 128 + tile.consumers * 8192,
       .maps = all_maps(code)});
  const std::int64_t reduced = splits + (conv.bias_grad ? rows * tile.rows() / 32 : 0);
  if (reduced > 0)
    code.launches.push_back({.entry = "conv_wgrad_reduce",
                             .blocks = reduced,
                             .threads = tile.consumers * 128,
                             .blocks_y = tile.mma_m * tile.n / 8});
  return code;
}

}  // namespace

bool is_channels_last(const Shape& shape, const Strides& strides, std::int64_t offset) {
  const Strides expected = shape.channels_last();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1 && strides[at(axis)] != expected[at(axis)]) return false;
  return offset % 8 == 0;
}

bool has_extra_store(const Kernel& kernel) {
  const int last = static_cast<int>(kernel.stores.size()) - 1;
  for (const Stage& stage : kernel.stages)
    for (const Store& store : stage.stores)
      if (store.access == last) return false;
  return true;
}

bool only_stores(const Plan& plan, const Kernel& kernel) {
  if (!kernel.loads.empty() || kernel.stages.size() != 1 || kernel.stores.empty() || kernel.stores.size() > 2)
    return false;
  const Stage& stage = kernel.stages[0];
  const Access& to = kernel.stores[0];
  const Dtype dtype = dtype_of(plan, to.slot);
  return stage.body.size() == 1 && stage.body[0].primitive == Primitive::head && stage.stores.size() == 1 &&
         stage.stores[0].access == 0 && stage.reductions.empty() && to.inside.empty() &&
         (dtype == Dtype::f32 || dtype == dtype_of(plan, kernel.head->operands[0].slot)) &&
         is_channels_last(kernel.domain, to.strides, to.offset);
}

bool fits_hopper(const HopperConv& conv) {
  const bool input_grad = conv.role == ConvRole::input_grad;
  for (std::size_t i : {0u, 1u}) {
    const int window = i == 0 ? conv.r : conv.s, dilation = conv.dilation[i];
    const int pad = input_grad ? (window - 1) * dilation - conv.pad[i] : conv.pad[i];
    if (!fits_im2col(pad, window, conv.stride[i], dilation) || (input_grad && conv.stride[i] != 1)) return false;
  }
  const bool filter_grad = conv.role == ConvRole::filter_grad;
  return conv.channels % (filter_grad ? 16 : 8) == 0 && conv.filters % 8 == 0 &&
         (!filter_grad || has_gradient_tiles(conv));
}

std::optional<HopperConv> conv_sizes(const Plan& plan, const Kernel& kernel) {
  const std::optional<HopperConv> conv = any_conv_sizes(plan, kernel);
  return conv && (conv->dtype == Dtype::f16 || conv->dtype == Dtype::bf16) ? conv : std::nullopt;
}

std::optional<HopperConv> any_conv_sizes(const Plan& plan, const Kernel& kernel) {
  const auto* op = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
  if (!op || op->groups != 1 || kernel.domain.rank() != 4 || kernel.domain.size() == 0) return {};
  const Operand &first = kernel.head->operands[0], &second = kernel.head->operands[1];
  const int typed = op->role == ConvRole::output ? second.slot : first.slot;  // w or dy
  HopperConv conv{.role = op->role, .dtype = dtype_of(plan, typed)};
  if (first.shape.size() == 0 || second.shape.size() == 0) return {};
  const bool output = op->role == ConvRole::output, input_grad = op->role == ConvRole::input_grad;
  const Shape& x = output ? first.shape : input_grad ? kernel.domain : second.shape;
  const Shape& w = output || input_grad ? second.shape : kernel.domain;
  const Shape& y = output ? kernel.domain : first.shape;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (x.size() > most || y.size() > most || w.size() > most) return {};
  const auto size = [](const Shape& shape, int axis) { return static_cast<int>(shape[axis]); };
  conv.images = size(x, 0), conv.channels = size(x, 1), conv.height = size(x, 2), conv.width = size(x, 3);
  conv.filters = size(w, 0), conv.r = size(w, 2), conv.s = size(w, 3), conv.p = size(y, 2), conv.q = size(y, 3);
  for (int i : {0, 1}) {
    conv.stride[at(i)] = op->stride[at(i)], conv.pad[at(i)] = op->pad[at(i)];
    conv.dilation[at(i)] = op->dilation[at(i)];
  }
  conv.bias_grad = op->role == ConvRole::filter_grad && has_extra_store(kernel);
  conv.pooled = output && kernel.stores.size() >= 2 && has_extra_store(kernel) &&
                dtype_of(plan, kernel.stores[1].slot) == Dtype::u8;
  conv.products = kernel.head->operands.size() == 4 ? 3 : 1;
  if (w[1] != x[1]) conv.row_channels = size(w, 1), conv.row_s = conv.s, conv.s = 1;
  return conv;
}

std::optional<HopperConv> hopper_conv_sizes(const Plan& plan, const Kernel& kernel) {
  const std::optional<HopperConv> conv = conv_sizes(plan, kernel);
  if (!conv || !fits_hopper(*conv)) return {};
  for (const Operand& operand : kernel.head->operands)
    if (dtype_of(plan, operand.slot) != conv->dtype) return {};
  return conv;
}

namespace {

// A B of 16-bit matrices whose result is worked on: a layer of one pixel an image, or with rows of B the input gradient
// of one. The library is faster where tiles are too few to go round.
std::optional<HopperConv> matrix_product(const Plan& plan, const Kernel& kernel) {
  if (!kernel.head || !std::holds_alternative<Matmul>(kernel.head->op) || kernel.domain.rank() != 2) return {};
  const Operand &a = kernel.head->operands[0], &b = kernel.head->operands[1];
  const Dtype dtype = dtype_of(plan, a.slot);
  const std::int64_t rows = kernel.domain[0], columns = kernel.domain[1], terms = a.shape[1];
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const bool rows_of_b = b.strides == Strides{columns, 1};
  if ((dtype != Dtype::f16 && dtype != Dtype::bf16) || dtype_of(plan, b.slot) != dtype ||
      a.strides != Strides{terms, 1} || (!rows_of_b && b.strides != Strides{1, terms}) || terms % 8 != 0 ||
      columns % 8 != 0 || a.offset % 8 != 0 || b.offset % 8 != 0 ||
      ceil_div(rows, 128) * ceil_div(columns, 128) < kMultiprocessors / 3 ||
      std::max({rows * columns, rows * terms, terms * columns}) > most)
    return {};
  return HopperConv{.role = rows_of_b ? ConvRole::input_grad : ConvRole::output,
                    .images = static_cast<int>(rows),
                    .channels = static_cast<int>(rows_of_b ? columns : terms),
                    .height = 1,
                    .width = 1,
                    .filters = static_cast<int>(rows_of_b ? terms : columns),
                    .r = 1,
                    .s = 1,
                    .p = 1,
                    .q = 1,
                    .stride = {1, 1},
                    .pad = {0, 0},
                    .dilation = {1, 1},
                    .dtype = dtype};
}

}  // namespace

std::optional<HopperConv> as_hopper_conv(const Plan& plan, const Kernel& kernel) {
  if (const auto product = matrix_product(plan, kernel)) return product;
  const std::optional<HopperConv> conv = hopper_conv_sizes(plan, kernel);
  if (!conv) return {};
  for (const Operand& operand : kernel.head->operands)
    if (!is_channels_last(operand.shape, operand.strides, operand.offset)) return {};
  return conv;
}

KernelCode generate_hopper_conv(const Plan& plan, const Kernel& kernel, const HopperConv& conv,
                                const std::string& way) {
  const bool grad = conv.role == ConvRole::filter_grad, by_rows = fits_rows(conv), by_halo = fits_halo(conv);
  const std::vector<Tile> tiles = grad ? gradient_tiles(conv) : forward_tiles(conv);
  std::vector<Way> ways = conv.pooled ? std::vector<Way>{} : ways_of(tiles);
  if (by_halo) {
    const Way halo{kHaloWay, halo_clocks(conv)};
    ways.insert(
        std::find_if(ways.begin(), ways.end(), [&](const Way& other) { return other.estimate > halo.estimate; }), halo);
  }
  if (by_rows) ways.insert(ways.begin(), {kRowsWay, ways.front().estimate});
  const std::string& taken = way.empty() ? ways.front().name : way;
  KernelCode code;
  if (by_rows && taken == kRowsWay)
    code = generate_hopper_rows(plan, kernel, conv);
  else if (by_halo && taken == kHaloWay)
    code = generate_hopper_halo(plan, kernel, conv);
  else if (grad)
    code = generate_filter_grad(plan, kernel, conv, tile_named(tiles, taken));
  else
    code = generate_forward(plan, kernel, conv, tile_named(tiles, taken));
  code.operation = operation_text(conv);
  code.ways = std::move(ways);
  return code;
}

}  // namespace nixie::cuda
