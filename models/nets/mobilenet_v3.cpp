// MobileNet v3: inverted residuals with hard activations and, in some, squeeze and excitation.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

struct Block {
  int kernel, hidden, out;
  bool squeezes, hard_swish;  ///< relu in place of hard_swish
  int stride;
};

constexpr Block kLarge[] = {{3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
                            {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
                            {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
                            {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
                            {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
constexpr Block kSmall[] = {{3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
                            {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
                            {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
                            {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};

// Convolution, batch norm and the activation, if there is one.
Sequential unit(int out, int kernel, int stride, int groups, const std::optional<AnyLayer>& activation) {
  Sequential layers{
      Conv2d{.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .groups = groups, .bias = false},
      BatchNorm{.eps = 1e-3, .momentum = 0.01}};
  if (activation) layers.add(*activation);
  return layers;
}

// The multiple of 8 nearest to a quarter, but not below nine tenths of it.
int squeezed(int channels) {
  const int quarter = channels / 4, near = std::max(8, (quarter + 4) / 8 * 8);
  return 10 * near < 9 * quarter ? near + 8 : near;
}

NamedLayer block(int in, const Block& b) {
  const AnyLayer activation = b.hard_swish ? AnyLayer(HardSwish{}) : AnyLayer(Relu{});
  Sequential layers;
  if (b.hidden != in) layers.add(unit(b.hidden, 1, 1, 1, activation));
  layers.add(unit(b.hidden, b.kernel, b.stride, b.hidden, activation));
  if (b.squeezes) layers.add(SqueezeExcite{.squeeze = squeezed(b.hidden), .gate = HardSigmoid::name});
  layers.add(unit(b.out, 1, 1, 1, {}));
  if (b.stride == 1 && in == b.out) return SumBranches{{{"", Identity{}}, {"block", layers}}};
  return Sequential{{"block", layers}};
}

}  // namespace

template <bool large>
Sequential MobilenetV3<large>::layers() const {
  Sequential features{unit(16, 3, 2, 1, HardSwish{})};
  int channels = 16;
  for (const Block& b : large ? std::span<const Block>(kLarge) : std::span<const Block>(kSmall)) {
    features.add(block(channels, b));
    channels = b.out;
  }
  features.add(unit(6 * channels, 1, 1, 1, HardSwish{}));
  const Sequential classifier{Linear{.out = large ? 1280 : 1024}, HardSwish{}, Dropout{.rate = dropout},
                              output_layer(classes)};
  return {{"features", features}, {"avgpool", GlobalAvgPool{}}, Flatten{}, {"classifier", classifier}};
}

template struct MobilenetV3<true>;
template struct MobilenetV3<false>;

}  // namespace nixie
