// Builds convolution layers: a filter, optionally a bias, and the op.
#include "nixie/layers/conv.h"

#include <algorithm>

namespace nixie {
namespace {

// first, second, then the kernel's sizes.
Shape filter_shape(std::int64_t first, std::int64_t second, const std::vector<int>& kernel) {
  std::vector<std::int64_t> sizes{first, second};
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  return Shape(std::move(sizes));
}

// [out] as [out, 1, ...], which broadcasts over the spatial axes.
Tensor per_channel(const Variable& bias, int spatial) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(spatial) + 1, 1);
  sizes[0] = bias.shape()[0];
  return reshape(bias, sizes);
}

template <class Options>
ConvOptions conv_options(const Options& layer, int spatial) {
  return {.stride = layer.stride.expand(spatial, "stride"),
          .pad = layer.pad.expand(spatial, "pad"),
          .dilation = layer.dilation.expand(spatial, "dilation"),
          .groups = layer.groups};
}

void check_groups(const Shape& in, int out, int groups) {
  check(in[1] % groups == 0 && out % groups == 0, in[1], " input and ", out, " output channels do not split into ",
        groups, " groups");
}

template <class Op>
Forward convolution(std::int64_t channels, int spatial, const Variable& w, const std::optional<Variable>& b,
                    const Op& op) {
  return [=](const Tensor& x, const Pass&) {
    check_input(x.shape(), spatial, channels);
    const Tensor y = op(x, w);
    return b ? y + per_channel(*b, spatial) : y;
  };
}

}  // namespace

template <int spatial>
Forward ConvLayer<spatial>::build(const Shape& in, Parameters& parameters) const {
  check_input(in, spatial);
  check_groups(in, out, groups);
  const std::vector<int> sizes = kernel.expand(spatial, "kernel");
  const Shape filter = filter_shape(out, in[1] / groups, sizes);
  ConvLayer padded = *this;
  std::vector<std::int64_t> more(static_cast<std::size_t>(spatial) + 2, 0);  // zeros behind the image alone
  if (pad.is_same()) {
    const std::vector<int> steps = stride.expand(spatial, "stride"), spread = dilation.expand(spatial, "dilation");
    check(std::all_of(steps.begin(), steps.end(), [](int step) { return step == 1; }),
          "pad is same, which needs stride 1");
    padded.pad.values.clear();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const int zeros = spread[i] * (sizes[i] - 1);
      padded.pad.values.push_back(zeros / 2);
      more[i + 2] = zeros % 2;
    }
  }
  const ConvOptions options = conv_options(padded, spatial);
  const Variable w = parameters.make("weight", filter, init);
  std::optional<Variable> b;
  if (bias) b = parameters.make("bias", {out}, bias_init);
  return convolution(in[1], spatial, w, b, [=](const Tensor& x, const Tensor& w) {
    return conv(nixie::pad(x, std::vector<std::int64_t>(more.size(), 0), more), w, options);
  });
}

template <int spatial>
Forward DeconvLayer<spatial>::build(const Shape& in, Parameters& parameters) const {
  check_input(in, spatial);
  check_groups(in, out, groups);
  const Shape filter = filter_shape(in[1], out / groups, kernel.expand(spatial, "kernel"));
  const ConvOptions options = conv_options(*this, spatial);
  const std::vector<int> extra = output_pad.expand(spatial, "output_pad");
  const Variable w = parameters.make("weight", filter, init);
  std::optional<Variable> b;
  if (bias) b = parameters.make("bias", {out}, bias_init);
  return convolution(in[1], spatial, w, b,
                     [=](const Tensor& x, const Tensor& w) { return deconv(x, w, options, extra); });
}

template struct ConvLayer<1>;
template struct ConvLayer<2>;
template struct ConvLayer<3>;
template struct DeconvLayer<1>;
template struct DeconvLayer<2>;
template struct DeconvLayer<3>;

}  // namespace nixie
