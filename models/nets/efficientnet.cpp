// EfficientNet-B0: inverted residuals with squeeze and excitation, whose branches are dropped more the deeper they are.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

Sequential unit(int out, int kernel, int stride = 1, int groups = 1) {
  return {Conv2d{.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .groups = groups, .bias = false},
          BatchNorm{}, Silu{}};
}

Sequential projection(int out) { return {Conv2d{.out = out, .kernel = 1, .bias = false}, BatchNorm{}}; }

NamedLayer block(int in, int out, int expansion, int kernel, int stride, double drop) {
  const int hidden = expansion * in;
  Sequential layers;
  if (expansion != 1) layers.add(unit(hidden, 1));
  layers.add(unit(hidden, kernel, stride, hidden))
      .add(SqueezeExcite{.squeeze = in / 4, .activation = Silu::name})
      .add(projection(out));
  if (stride != 1 || in != out) return Sequential{{"block", layers}};
  return SumBranches{
      {{"", Identity{}}, {"", Sequential{{"block", layers}, {"stochastic_depth", DropPath{.rate = drop}}}}}};
}

}  // namespace

Sequential EfficientnetB0::layers() const {
  struct Stage {
    int expansion, kernel, stride, out, count;
  };
  constexpr Stage kStages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                               {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  constexpr int kBlocks = 16;
  Sequential features{unit(32, 3, 2)};
  int channels = 32, before = 0;
  for (const auto& [expansion, kernel, stride, out, count] : kStages) {
    Sequential stage;
    for (int i = 0; i < count; ++i, ++before, channels = out)
      stage.add(block(channels, out, expansion, kernel, i == 0 ? stride : 1, drop_path * before / kBlocks));
    features.add(stage);
  }
  features.add(unit(1280, 1));
  const Sequential classifier{Dropout{.rate = dropout}, output_layer(classes)};
  return {{"features", features}, {"avgpool", GlobalAvgPool{}}, Flatten{}, {"classifier", classifier}};
}

}  // namespace nixie
