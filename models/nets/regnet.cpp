// RegNet X and Y of 400 MFLOP: four stages of bottlenecks with grouped convolutions, in Y with squeeze-excitation.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

/// The stages of a net, from the paper's rule for its widths.
struct Table {
  int widths[4], depths[4], group;  ///< channels of a group
};
constexpr Table kX400 = {{32, 64, 160, 400}, {1, 2, 7, 12}, 16};
constexpr Table kY400 = {{48, 104, 208, 440}, {1, 3, 6, 6}, 8};

Sequential unit(int out, int kernel, int stride = 1, int groups = 1) {
  return {Conv2d{.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .groups = groups, .bias = false},
          BatchNorm{}};
}

Sequential active(Sequential layers) { return layers.add(Relu{}); }

Sequential block(int in, int out, int stride, int group, bool squeezes) {
  Sequential f{{"a", active(unit(out, 1))}, {"b", active(unit(out, 3, stride, out / group))}};
  if (squeezes) f.add({"se", SqueezeExcite{.squeeze = (in + 2) / 4}});
  f.add({"c", unit(out, 1)});
  const bool same = in == out && stride == 1;
  const NamedLayer shortcut = same ? NamedLayer{"", Identity{}} : NamedLayer{"proj", unit(out, 1, stride)};
  return {{"", SumBranches{{shortcut, {"f", f}}}}, Relu{}};
}

}  // namespace

template <bool squeezes>
Sequential Regnet400<squeezes>::layers() const {
  const Table& table = squeezes ? kY400 : kX400;
  Sequential trunk;
  int channels = 32;
  for (int s = 0; s < 4; ++s) {
    Sequential stage;
    for (int i = 0; i < table.depths[s]; ++i, channels = table.widths[s])
      stage.add({fmt::format("block{}-{}", s + 1, i),
                 block(channels, table.widths[s], i == 0 ? 2 : 1, table.group, squeezes)});
    trunk.add({fmt::format("block{}", s + 1), stage});
  }
  return {{"stem", active(unit(32, 3, 2))},
          {"trunk_output", trunk},
          {"avgpool", GlobalAvgPool{}},
          Flatten{},
          {"fc", output_layer(classes)}};
}

template struct Regnet400<false>;
template struct Regnet400<true>;

}  // namespace nixie
