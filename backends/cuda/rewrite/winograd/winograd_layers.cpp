// Estimates the time of Winograd's tiles and of direct convolutions.
#include "nixie/backends/cuda/rewrite/winograd/winograd_layers.h"

#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// A product's start counts as so many terms more.
constexpr double kStartTerms = 32;
// Operations of a direct convolution in the time of one of the library's products.
constexpr double kDirect = 1.1;

double count(auto... sizes) { return (static_cast<double>(sizes) * ... * 1.0); }
double images(const ConvProblem& conv) { return count(conv.images, conv.channels, conv.height, conv.width); }
double results(const ConvProblem& conv) { return count(conv.images, conv.filters, conv.p, conv.q); }
double weights(const ConvProblem& conv) { return count(conv.filters, conv.channels, conv.r, conv.s); }
double element_bytes(const ConvProblem& conv) { return static_cast<double>(size_of(conv.dtype)); }
double bytes_in_place(const ConvProblem& conv) {
  return element_bytes(conv) * (images(conv) + results(conv) + weights(conv));
}

double time_in_tiles(const ConvProblem& conv, const TiledLayer& layer, const Chip& chip) {
  const double windows = count(layer.images, layer.tiles(), kElements),
               filters = count(layer.from_channels, layer.to_channels);
  const double matrices =
      element_bytes(conv) * (windows * count(layer.from_channels + layer.to_channels) + count(kElements) * filters);
  const double terms =
      layer.role == ConvRole::filter_grad ? count(layer.images, layer.tiles()) : count(layer.from_channels);
  const double started = 2 * windows * filters * (1 + kStartTerms / terms);
  const Work products{.bytes = matrices, .mma = started, .launches = 1.2},
      transforms{.bytes = matrices + bytes_in_place(conv), .launches = 3.6};
  return chip.seconds(products) + chip.seconds(transforms);
}

double time_in_place(const ConvProblem& conv, const Chip& chip) {
  const double pixels = conv.role == ConvRole::input_grad ? count(conv.images, conv.height, conv.width)
                                                          : count(conv.images, conv.p, conv.q);
  return chip.seconds({.bytes = bytes_in_place(conv), .mma = 2 * weights(conv) * pixels / kDirect});
}

}  // namespace

std::optional<ConvProblem> half_conv(const Plan& plan, const Kernel& kernel) {
  const std::optional<ConvProblem> conv = conv_of_16_bits(plan, kernel, Groups::one);
  const bool fits = conv && tensor_core_limits(*conv).empty() && conv->filters % 8 == 0 && conv->r == kTaps &&
                    conv->s == kTaps && conv->dilation == std::array{1, 1} && conv->stride == std::array{1, 1};
  return fits ? conv : std::nullopt;
}

TiledLayer::TiledLayer(const ConvProblem& conv)
    : role(conv.role),
      dtype(conv.dtype),
      images(conv.images),
      from_channels(conv.channels),
      to_channels(conv.filters),
      pad{conv.pad[0], conv.pad[1]} {
  const bool back = role == ConvRole::input_grad;
  if (back) {
    std::swap(from_channels, to_channels);
    for (std::int64_t& p : pad) p = kTaps - 1 - p;
  }
  rows = ceil_div(back ? conv.height : conv.p, kTile), columns = ceil_div(back ? conv.width : conv.q, kTile);
}

bool tiles_pay(const ConvProblem& conv, const Chip& chip) {
  return time_in_tiles(conv, TiledLayer(conv), chip) < time_in_place(conv, chip);
}

}  // namespace nixie::cuda
