// Pooling layers: over windows of the spatial axes, over all of them, and over channels.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, spatial...] -> [N, C, (in + 2 pad - dilation (window - 1) - 1) / stride + 1 ...]: the largest of each window.
template <int spatial>
struct MaxPoolLayer {
  PerAxis window = 2, stride = 0, pad = 0, dilation = 1;
  bool ceil_mode = false;

  static constexpr const char* name = spatial == 1 ? "max_pool1d" : spatial == 2 ? "max_pool2d" : "max_pool3d";
  static constexpr auto fields() {
    return field_list(field("window", &MaxPoolLayer::window, "size of the window", {1}),
                      field("stride", &MaxPoolLayer::stride, "distance between windows, 0 = the window", {0}),
                      field("pad", &MaxPoolLayer::pad, "padding on both sides, at most half the window's extent", {0}),
                      field("dilation", &MaxPoolLayer::dilation, "distance between positions of a window", {1}),
                      field("ceil_mode", &MaxPoolLayer::ceil_mode, "the last window may extend past the input"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};
using MaxPool1d = MaxPoolLayer<1>;
using MaxPool2d = MaxPoolLayer<2>;
using MaxPool3d = MaxPoolLayer<3>;

/// The same with the mean of each window.
template <int spatial>
struct AvgPoolLayer {
  PerAxis window = 2, stride = 0, pad = 0, dilation = 1;
  bool ceil_mode = false, count_pad = true;

  static constexpr const char* name = spatial == 1 ? "avg_pool1d" : spatial == 2 ? "avg_pool2d" : "avg_pool3d";
  static constexpr auto fields() {
    return field_list(field("window", &AvgPoolLayer::window, "size of the window", {1}),
                      field("stride", &AvgPoolLayer::stride, "distance between windows, 0 = the window", {0}),
                      field("pad", &AvgPoolLayer::pad, "padding on both sides, at most half the window's extent", {0}),
                      field("dilation", &AvgPoolLayer::dilation, "distance between positions of a window", {1}),
                      field("ceil_mode", &AvgPoolLayer::ceil_mode, "the last window may extend past the input"),
                      field("count_pad", &AvgPoolLayer::count_pad, "the average includes padding, as in PyTorch"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};
using AvgPool1d = AvgPoolLayer<1>;
using AvgPool2d = AvgPoolLayer<2>;
using AvgPool3d = AvgPoolLayer<3>;

/// The same with the square root of each window's sum of squares.
template <int spatial>
struct L2PoolLayer {
  PerAxis window = 2, stride = 0, pad = 0, dilation = 1;

  static constexpr const char* name = spatial == 1 ? "l2_pool1d" : spatial == 2 ? "l2_pool2d" : "l2_pool3d";
  static constexpr auto fields() {
    return field_list(field("window", &L2PoolLayer::window, "size of the window", {1}),
                      field("stride", &L2PoolLayer::stride, "distance between windows, 0 = the window", {0}),
                      field("pad", &L2PoolLayer::pad, "padding on both sides, at most half the window's extent", {0}),
                      field("dilation", &L2PoolLayer::dilation, "distance between positions of a window", {1}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};
using L2Pool1d = L2PoolLayer<1>;
using L2Pool2d = L2PoolLayer<2>;
using L2Pool3d = L2PoolLayer<3>;

/// [N, C, spatial...] -> [N, C, 1...]: the mean over all spatial axes.
struct GlobalAvgPool {
  static constexpr const char* name = "global_avg_pool";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, C, H, W] -> [N, C, out...]: the means of `out` parts of each axis; part i of n elements begins at floor(i n /
/// out) and ends at ceil((i + 1) n / out), as in PyTorch, so that any image size gives the same shape.
struct AdaptiveAvgPool2d {
  PerAxis out = 1;

  static constexpr const char* name = "adaptive_avg_pool2d";
  static constexpr auto fields() { return field_list(field("out", &AdaptiveAvgPool2d::out, "output size", {1})); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, C, spatial...] -> [N, C, 1...]: the largest over all spatial axes.
struct GlobalMaxPool {
  static constexpr const char* name = "global_max_pool";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, C, ...] -> [N, (C + 2 pad - window) / stride + 1, ...]: the largest of each window of channels (Goodfellow et
/// al. 2013).
struct Maxout {
  int window = 2, stride = 0, pad = 0;

  static constexpr const char* name = "maxout";
  static constexpr auto fields() {
    return field_list(field("window", &Maxout::window, "channels in a window", {1}),
                      field("stride", &Maxout::stride, "distance between windows, 0 = the window", {0}),
                      field("pad", &Maxout::pad, "padding on both sides, at most half the window", {0}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
