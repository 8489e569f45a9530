// Convolution and transposed convolution layers with one, two or three spatial axes.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, spatial...] -> [N, out, (in + 2 pad - dilation (kernel - 1) - 1) / stride + 1 ...]: cross-correlation with
/// weight [out, C / groups, kernel...], plus bias [out]. `pad: same` keeps the size at stride 1; if the number of zeros
/// is odd, the end gets one more, as in PyTorch.
template <int spatial>
struct ConvLayer {
  int out = 0;
  PerAxis kernel = 3, stride = 1, pad = 0, dilation = 1;
  int groups = 1;
  bool bias = true;
  Init init = Init::kaiming();
  Init bias_init = Init::zeros();

  static constexpr const char* name = spatial == 1 ? "conv1d" : spatial == 2 ? "conv2d" : "conv3d";
  static constexpr auto fields() {
    return field_list(field("out", &ConvLayer::out, "output channels", {1}),
                      field("kernel", &ConvLayer::kernel, "size of the filter", {1}),
                      field("stride", &ConvLayer::stride, "distance between windows", {1}),
                      field("pad", &ConvLayer::pad, "zero padding on both sides; same: keeps the size", {0}),
                      field("dilation", &ConvLayer::dilation, "distance between the filter's elements", {1}),
                      field("groups", &ConvLayer::groups, "number of channel groups", {1}),
                      field("bias", &ConvLayer::bias, "adds a bias"),
                      field("init", &ConvLayer::init, "initial weights"),
                      field("bias_init", &ConvLayer::bias_init, "initial biases"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};
using Conv1d = ConvLayer<1>;
using Conv2d = ConvLayer<2>;
using Conv3d = ConvLayer<3>;

/// [N, C, spatial...] -> [N, out, (in - 1) stride - 2 pad + dilation (kernel - 1) + 1 + output_pad ...]: the transpose
/// of a convolution, with weight [C, out / groups, kernel...], plus bias [out].
template <int spatial>
struct DeconvLayer {
  int out = 0;
  PerAxis kernel = 3, stride = 1, pad = 0, output_pad = 0, dilation = 1;
  int groups = 1;
  bool bias = true;
  Init init = Init::kaiming();
  Init bias_init = Init::zeros();

  static constexpr const char* name = spatial == 1 ? "deconv1d" : spatial == 2 ? "deconv2d" : "deconv3d";
  static constexpr auto fields() {
    return field_list(field("out", &DeconvLayer::out, "output channels", {1}),
                      field("kernel", &DeconvLayer::kernel, "size of the filter", {1}),
                      field("stride", &DeconvLayer::stride, "distance between windows in the output", {1}),
                      field("pad", &DeconvLayer::pad, "cropped from both sides of the output", {0}),
                      field("output_pad", &DeconvLayer::output_pad, "added at the end of the output", {0}),
                      field("dilation", &DeconvLayer::dilation, "distance between the filter's elements", {1}),
                      field("groups", &DeconvLayer::groups, "number of channel groups", {1}),
                      field("bias", &DeconvLayer::bias, "adds a bias"),
                      field("init", &DeconvLayer::init, "initial weights"),
                      field("bias_init", &DeconvLayer::bias_init, "initial biases"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};
using Deconv1d = DeconvLayer<1>;
using Deconv2d = DeconvLayer<2>;
using Deconv3d = DeconvLayer<3>;

}  // namespace nixie
