// Layers of Winograd's tiles, and estimates of what they take.
#include "nixie/backends/cuda/rewrite/winograd/winograd_layers.h"

#include "nixie/backends/cuda/rewrite/lowering.h"

namespace nixie::cuda {
namespace {

// What an H200 does: direct sums of products of floats at 45 TFLOP/s, the library's at 51, of halves at 800 and 730,
// the library's less a start of some 32 terms; transforms at 3.8 and 3.6 TB/s. Others have the rates for floats in
// about the same proportion, and the order of sums is to be no function of the device; halves in tiles are Hopper's
// alone.
struct Rates {
  double direct, product, bytes;
};
Rates rates_of(Dtype dtype) {
  return dtype == Dtype::f32 ? Rates{45e12, 51e12, 3.8e12} : Rates{800e12, 730e12, 3.6e12};
}
constexpr double kStartTerms = 32, kLaunches = 10e-6;

double count(auto... sizes) { return (static_cast<double>(sizes) * ... * 1.0); }
double images(const HopperConv& conv) { return count(conv.images, conv.channels, conv.height, conv.width); }
double results(const HopperConv& conv) { return count(conv.images, conv.filters, conv.p, conv.q); }
double weights(const HopperConv& conv) { return count(conv.filters, conv.channels, conv.r, conv.s); }
double element_bytes(const HopperConv& conv) { return static_cast<double>(size_of(conv.dtype)); }
double bytes_in_place(const HopperConv& conv) {
  return element_bytes(conv) * (images(conv) + results(conv) + weights(conv));
}

double time_in_tiles(const HopperConv& conv, const TiledLayer& layer) {
  const double windows = count(layer.images, layer.tiles(), layer.elements()),
               filters = count(layer.from_channels, layer.to_channels);
  const double matrices = element_bytes(conv) * (windows * count(layer.from_channels + layer.to_channels) +
                                                 count(layer.elements()) * filters);
  const double terms =
      layer.role == ConvRole::filter_grad ? count(layer.images, layer.tiles()) : count(layer.from_channels);
  const double started = 2 * windows * filters * (1 + kStartTerms / terms);
  const Rates rates = rates_of(conv.dtype);
  const double products = std::max(started / rates.product, matrices / rates.bytes);
  return products + (matrices + bytes_in_place(conv)) / rates.bytes + kLaunches;
}

}  // namespace

std::optional<HopperConv> multiply_add_conv(const Plan& plan, const Kernel& kernel) {
  const auto* op = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
  if (!op || op->math != Math::ieee || !all_f32(plan, *kernel.head)) return {};
  const auto conv = any_conv_sizes(plan, kernel);
  const bool plain = conv && !conv->bias_grad && conv->r == conv->s && conv->dilation == std::array{1, 1};
  return plain ? conv : std::nullopt;
}

std::optional<HopperConv> half_conv(const Plan& plan, const Kernel& kernel) {
  const auto conv = hopper_conv_sizes(plan, kernel);
  const bool plain = conv && conv->products == 1 && conv->row_channels == 0 && !conv->bias_grad && !conv->pooled &&
                     conv->r == 3 && conv->s == 3 && conv->dilation == std::array{1, 1};
  return plain ? conv : std::nullopt;
}

bool can_be_tiled(const HopperConv& conv) { return (conv.r == 3 || conv.r == 5) && conv.stride == std::array{1, 1}; }

TiledLayer::TiledLayer(const HopperConv& conv, int tile)
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

double time_in_place(const HopperConv& conv) {
  const double pixels = conv.role == ConvRole::input_grad ? count(conv.images, conv.height, conv.width)
                                                          : count(conv.images, conv.p, conv.q);
  const Rates rates = rates_of(conv.dtype);
  return std::max(2 * weights(conv) * pixels / rates.direct, bytes_in_place(conv) / rates.bytes);
}

std::optional<TiledLayer> fastest_tiles(const HopperConv& conv, std::optional<double> most) {
  std::optional<TiledLayer> best;
  double least = most.value_or(time_in_place(conv));
  for (int tile : {4, 2}) {
    if (tile == 4 && conv.dtype != Dtype::f32) continue;  // errs twelve times as much as rounding once
    TiledLayer layer(conv, tile);
    const double time = time_in_tiles(conv, layer);
    if (time >= least) continue;
    least = time, best = std::move(layer);
  }
  return best;
}

}  // namespace nixie::cuda
