// ConvNeXt-T: residual blocks of a depthwise 7x7 convolution and two linear layers over the channels of each pixel.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

constexpr double kEps = 1e-6;

LayerNorm channel_norm() { return {.first = 1, .last = 1, .eps = kEps}; }

SumBranches block(int channels, double drop) {
  const Sequential branch{
      Conv2d{.out = channels, .kernel = 7, .pad = 3, .groups = channels},
      PermuteAxes{.order = {0, 2, 3, 1}},
      LayerNorm{.first = 3, .eps = kEps},
      Linear{.out = 4 * channels, .axis = -1},
      Gelu{},
      Linear{.out = channels, .axis = -1},
      PermuteAxes{.order = {0, 3, 1, 2}},
  };
  const Scale scale{.parameter = "layer_scale", .trailing = 2, .init = Init::constant(1e-6f)};
  return {{{"", Identity{}},
           {"", Sequential{{"block", branch}, {"", scale}, {"stochastic_depth", DropPath{.rate = drop}}}}}};
}

}  // namespace

Sequential ConvnextTiny::layers() const {
  struct Stage {
    int channels, count;
  };
  constexpr Stage kStages[] = {{96, 3}, {192, 3}, {384, 9}, {768, 3}};
  constexpr int kBlocks = 18;
  Sequential features;
  int before = 0;
  for (const auto& [channels, count] : kStages) {
    if (before == 0)
      features.add(Sequential{Conv2d{.out = channels, .kernel = 4, .stride = 4}, channel_norm()});
    else
      features.add(Sequential{channel_norm(), Conv2d{.out = channels, .kernel = 2, .stride = 2}});
    Sequential stage;
    for (int i = 0; i < count; ++i, ++before) stage.add(block(channels, drop_path * before / (kBlocks - 1)));
    features.add(stage);
  }
  return {{"features", features},
          {"avgpool", GlobalAvgPool{}},
          {"classifier", Sequential{channel_norm(), Flatten{}, output_layer(classes)}}};
}

}  // namespace nixie
