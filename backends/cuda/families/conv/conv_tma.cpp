// Tensor maps of images, filters and gradients; the sizes that they allow.
#include "nixie/backends/cuda/families/conv/conv_tma.h"

#include <numeric>

#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {

namespace {

// The range of a window's first tap along an axis: from `lower` to `upper` past the last pixel.
struct Corners {
  int lower = 0, upper = 0;
};

// {h, w}. The results decide where positions end: a phase of a strided gradient stops before or after its padding does.
std::array<Corners, 2> corners_of(const ConvProblem& conv, std::array<int, 2> pad, std::array<int, 2> stride) {
  std::array images{conv.height, conv.width}, results{conv.p, conv.q};
  if (conv.role == ConvRole::input_grad) std::swap(images, results);
  std::array<Corners, 2> corners;
  for (std::size_t i : {0u, 1u}) corners[i] = {-pad[i], (results[i] - 1) * stride[i] + 1 - pad[i] - images[i]};
  return corners;
}

constexpr int kFew = 32;       // filters, of which other forms make more (rewrite/unfold)
constexpr int kFewTerms = 64;  // for which results that leave one by one are not worth a tile

std::string group_limits(const ConvProblem& conv) {
  constexpr int kLeast = 16;
  const int least = std::min(conv.channels, conv.filters) / conv.groups;
  return conv.groups > 1 && least < kLeast ? fmt::format("groups of {} channels or filters", least) : "";
}

}  // namespace

std::string im2col_limits(const ConvProblem& conv) {
  const std::array<Corners, 2> corners = corners_of(conv, forward_layer(conv).pad, conv.stride);
  const auto in_range = [](int corner) { return corner >= -128 && corner <= 127; };
  for (std::size_t i : {0u, 1u}) {
    if (conv.role == ConvRole::input_grad && conv.stride[i] != 1)
      return fmt::format("input gradient of stride {}", conv.stride[i]);
    if (!in_range(corners[i].lower) || !in_range(corners[i].upper) || conv.stride[i] > 8 ||
        ((i == 0 ? conv.r : conv.s) - 1) * conv.dilation[i] > 255)
      return "window too large for the copy engine";
  }
  return {};
}

std::string fprop_limits(const ConvProblem& conv) {
  if (conv.role == ConvRole::filter_grad) return "filter gradient";
  if (std::string why = im2col_limits(conv); !why.empty()) return why;
  if (std::string why = group_limits(conv); !why.empty()) return why;
  const int channels = conv.channels / conv.groups, filters = conv.filters / conv.groups;
  if (channels % 8 != 0) return fmt::format("{} channels", channels);
  // Other numbers are filled up with zeros, which few filters are not worth.
  const bool any = conv.role == ConvRole::output && conv.groups == 1 && conv.planes == 0 && filters > kFew &&
                   channels * conv.r * conv.s >= kFewTerms;
  if (filters % 8 != 0 && !any) return fmt::format("{} filters", filters);
  if (conv.groups > 1 && conv.role == ConvRole::input_grad && filters % 64 != 0)
    return fmt::format("groups of {} filters", filters);
  return {};
}

std::string wgrad_limits(const ConvProblem& conv) {
  if (conv.role != ConvRole::filter_grad) return "no filter gradient";
  if (std::string why = im2col_limits(conv); !why.empty()) return why;
  if (std::string why = group_limits(conv); !why.empty()) return why;
  if (conv.channels / conv.groups % 8 != 0) return fmt::format("{} channels", conv.channels / conv.groups);
  if (conv.filters % 8 != 0) return fmt::format("{} filters", conv.filters);
  if (!has_gradient_tiles(conv)) return "more tiles than a schedule can name";
  return {};
}

std::string tensor_core_limits(const ConvProblem& conv) {
  return conv.role == ConvRole::filter_grad ? wgrad_limits(conv) : fprop_limits(conv);
}

TensorMap images_map(const Operand& operand, Dtype dtype, const ConvProblem& conv, std::array<int, 2> pad,
                     std::array<int, 2> stride, int slice, int pixels) {
  const int bytes = static_cast<int>(size_of(dtype));
  TensorMap map{.slot = operand.slot, .offset_bytes = operand.offset * bytes, .dtype = dtype, .im2col = true};
  const bool of_y = conv.role == ConvRole::input_grad;
  for (int size :
       {of_y ? conv.filters : conv.channels, of_y ? conv.q : conv.width, of_y ? conv.p : conv.height, conv.images})
    map.sizes.push_back(static_cast<std::uint64_t>(size));
  if (!is_channels_last(operand.shape, operand.strides, operand.offset))
    for (int axis : {3, 2, 0})  // the step of an axis of one element is any multiple of 16 bytes
      map.strides.push_back(operand.shape[axis] > 1 ? u64(operand.strides[at(axis)]) : 8);
  map.box = {static_cast<std::uint32_t>(slice), static_cast<std::uint32_t>(pixels)};
  map.swizzle_bytes = slice * bytes;
  const auto [down, across] = corners_of(conv, pad, stride);
  map.lower = {across.lower, down.lower}, map.upper = {across.upper, down.upper};
  map.stride = {static_cast<std::uint32_t>(stride[1]), static_cast<std::uint32_t>(stride[0])};
  return map;
}

TensorMap tiled_map(const Operand& operand, Dtype dtype, std::vector<std::uint64_t> sizes,
                    std::vector<std::uint32_t> box, int swizzle_bytes) {
  return {.slot = operand.slot,
          .offset_bytes = operand.offset * size_of(dtype),
          .dtype = dtype,
          .sizes = std::move(sizes),
          .box = std::move(box),
          .swizzle_bytes = swizzle_bytes};
}

TensorMap patches_map(const Operand& operand, Dtype dtype, std::vector<std::uint32_t> box, int swizzle_bytes) {
  TensorMap map = tiled_map(operand, dtype, {}, std::move(box), swizzle_bytes);
  for (const int axis : {1, 0, 3, 2}) map.sizes.push_back(u64(operand.shape[axis]));
  for (const int axis : {0, 3, 2})  // the step of an axis of one element is any multiple of 16 bytes
    map.strides.push_back(operand.shape[axis] > 1 ? u64(operand.strides[at(axis)]) : 8);
  return map;
}

const Operand& plane_of(const Choice& choice, int operand, int plane) {
  return plane == 0 ? choice.kernel.head->operands[at(operand)] : choice.low_planes[at(operand)];
}

std::vector<int> all_maps(const KernelCode& code) {
  std::vector<int> maps(code.maps.size());
  std::iota(maps.begin(), maps.end(), 0);
  return maps;
}
const char* of_products(const ConvProblem& conv) { return conv.products() == 3 ? ", 3 products" : ""; }

std::string tile_defines(const ConvProblem& conv, const Tile& tile, int slice) {
  return defines({{"CONV_SLICE", slice},
                  {"CONV_CONSUMERS", tile.consumers},
                  {"CONV_MMA_M", tile.mma_m},
                  {"CONV_TILE_N", tile.n},
                  {"CONV_STAGES", tile.stages},
                  {"CONV_PRODUCTS", conv.products()},
                  {"NIXIE_BF16", conv.dtype == Dtype::bf16}});
}

std::string window_defines(const ConvProblem& conv, std::array<int, 2> pad) {
  return defines({{"CONV_R", conv.r},
                  {"CONV_S", conv.s},
                  {"CONV_STRIDE_H", conv.stride[0]},
                  {"CONV_STRIDE_W", conv.stride[1]},
                  {"CONV_PAD_H", pad[0]},
                  {"CONV_PAD_W", pad[1]},
                  {"CONV_DILATION_H", conv.dilation[0]},
                  {"CONV_DILATION_W", conv.dilation[1]}});
}

}  // namespace nixie::cuda
