// Estimates the time of Winograd's tiles and of direct convolutions.
#include "nixie/backends/cuda/rewrite/winograd/winograd_layers.h"

#include "nixie/backends/cuda/families/conv/conv_fprop.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// A product's start counts as so many terms more.
const Rates& rates_of(const Chip& chip, Dtype dtype) { return dtype == Dtype::f32 ? chip.f32 : chip.f16; }
constexpr double kStartTerms = 32, kLaunches = 10e-6;

double count(auto... sizes) { return (static_cast<double>(sizes) * ... * 1.0); }
double images(const ConvProblem& conv) { return count(conv.images, conv.channels, conv.height, conv.width); }
double results(const ConvProblem& conv) { return count(conv.images, conv.filters, conv.p, conv.q); }
double weights(const ConvProblem& conv) { return count(conv.filters, conv.channels, conv.r, conv.s); }
double element_bytes(const ConvProblem& conv) { return static_cast<double>(size_of(conv.dtype)); }
double bytes_in_place(const ConvProblem& conv) {
  return element_bytes(conv) * (images(conv) + results(conv) + weights(conv));
}

double time_in_tiles(const ConvProblem& conv, const TiledLayer& layer, const Chip& chip) {
  const double windows = count(layer.images, layer.tiles(), layer.elements()),
               filters = count(layer.from_channels, layer.to_channels);
  const double matrices = element_bytes(conv) * (windows * count(layer.from_channels + layer.to_channels) +
                                                 count(layer.elements()) * filters);
  const double terms =
      layer.role == ConvRole::filter_grad ? count(layer.images, layer.tiles()) : count(layer.from_channels);
  const double started = 2 * windows * filters * (1 + kStartTerms / terms);
  const Rates& rates = rates_of(chip, conv.dtype);
  const double products = std::max(started / rates.blas_flops, matrices / rates.bytes);
  return products + (matrices + bytes_in_place(conv)) / rates.bytes + kLaunches;
}

}  // namespace

std::optional<ConvProblem> multiply_add_conv(const Plan& plan, const Kernel& kernel) {
  const auto* op = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
  if (!op || op->math != Math::ieee || !all_f32(plan, *kernel.head)) return {};
  const ConvMatch found = conv_problem(plan, kernel);
  const auto* conv = std::get_if<ConvProblem>(&found);
  return conv && conv->r == conv->s && conv->dilation == std::array{1, 1} ? std::optional(*conv) : std::nullopt;
}

std::optional<ConvProblem> half_conv(const Plan& plan, const Kernel& kernel) {
  const ConvMatch found = conv_problem(plan, kernel);
  const auto* conv = std::get_if<ConvProblem>(&found);
  if (!conv || !conv->is_16_bit() || !tensor_core_limits(*conv).empty() || conv->filters % 8 != 0) return {};
  for (const Operand& operand : kernel.head->operands)
    if (dtype_of(plan, operand) != conv->dtype) return {};
  return conv->r == 3 && conv->s == 3 && conv->dilation == std::array{1, 1} ? std::optional(*conv) : std::nullopt;
}

bool can_be_tiled(const ConvProblem& conv) { return (conv.r == 3 || conv.r == 5) && conv.stride == std::array{1, 1}; }

TiledLayer::TiledLayer(const ConvProblem& conv, int tile)
    : role(conv.role),
      dtype(conv.dtype),
      images(conv.images),
      from_channels(conv.channels),
      to_channels(conv.filters),
      pad{conv.pad[0], conv.pad[1]},
      taps(conv.r),
      tile(tile),
      line(line_matrices(tile, conv.r)) {
  const bool back = role == ConvRole::input_grad;
  if (back) {
    std::swap(from_channels, to_channels);
    for (std::int64_t& p : pad) p = taps - 1 - p;
  }
  rows = ((back ? conv.height : conv.p) + tile - 1) / tile, columns = ((back ? conv.width : conv.q) + tile - 1) / tile;
}

double time_in_place(const ConvProblem& conv, const Chip& chip) {
  const double pixels = conv.role == ConvRole::input_grad ? count(conv.images, conv.height, conv.width)
                                                          : count(conv.images, conv.p, conv.q);
  const Rates& rates = rates_of(chip, conv.dtype);
  return std::max(2 * weights(conv) * pixels / rates.direct_flops, bytes_in_place(conv) / rates.bytes);
}

std::optional<TiledLayer> fastest_tiles(const ConvProblem& conv, const Chip& chip, std::optional<double> most) {
  std::optional<TiledLayer> best;
  double least = most.value_or(time_in_place(conv, chip));
  for (int tile : {4, 2}) {
    if (tile == 4 && conv.dtype != Dtype::f32) continue;  // errs twelve times as much as rounding once
    TiledLayer layer(conv, tile);
    const double time = time_in_tiles(conv, layer, chip);
    if (time >= least) continue;
    least = time, best = std::move(layer);
  }
  return best;
}

}  // namespace nixie::cuda
