// Builds pooling layers.
#include "nixie/layers/pool.h"

namespace nixie {
namespace {

template <class Layer>
PoolOptions pool_options(const Layer& layer, int spatial) {
  PoolOptions options{.window = layer.window.expand(spatial, "window"),
                      .pad = layer.pad.expand(spatial, "pad"),
                      .dilation = layer.dilation.expand(spatial, "dilation")};
  options.stride = layer.stride.expand(spatial, "stride");
  for (std::size_t i = 0; i < options.stride.size(); ++i)
    if (options.stride[i] == 0) options.stride[i] = options.window[i];
  return options;
}

Forward windows(const Shape& in, int spatial, const PoolOptions& options,
                Tensor (*pool)(const Tensor&, const PoolOptions&)) {
  check_input(in, spatial);
  return [=](const Tensor& x, const Pass&) {
    check_input(x.shape(), spatial);
    return pool(x, options);
  };
}

Axes spatial_axes(const Shape& shape) {
  check(shape.rank() > 2, "input is ", shape, ", expected [N, C, spatial...]");
  Axes axes = all_axes(shape);
  axes.erase(axes.begin(), axes.begin() + 2);
  return axes;
}

// Part by part where `out` does not divide the axis: the parts overlap or repeat.
Tensor part_means(const Tensor& x, int axis, std::int64_t out) {
  const std::int64_t size = x.shape()[axis];
  if (size == out) return x;
  if (size % out == 0) {
    PoolOptions options{.window = {1, 1}, .stride = {1, 1}};
    const auto spatial = static_cast<std::size_t>(axis - 2);
    options.window[spatial] = options.stride[spatial] = static_cast<int>(size / out);
    return average_pool(x, options);
  }
  constexpr std::int64_t kMostParts = 4096;  // each is a few nodes of the graph
  check(out <= kMostParts, out, " parts of an axis of ", size, ", expected at most ", kMostParts,
        " where they do not divide it");
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < out; ++i) {
    const Index part = Index::range(i * size / out, ((i + 1) * size + out - 1) / out);
    parts.push_back(mean(slice(x, Index::along(axis, part)), {axis}));
  }
  return concat(parts, axis);
}

}  // namespace

template <int spatial>
Forward MaxPoolLayer<spatial>::build(const Shape& in, Parameters&) const {
  PoolOptions options = pool_options(*this, spatial);
  options.ceil_mode = ceil_mode;
  return windows(in, spatial, options, max_pool);
}

template <int spatial>
Forward AvgPoolLayer<spatial>::build(const Shape& in, Parameters&) const {
  PoolOptions options = pool_options(*this, spatial);
  options.ceil_mode = ceil_mode;
  options.count_pad = count_pad;
  return windows(in, spatial, options, average_pool);
}

template <int spatial>
Forward L2PoolLayer<spatial>::build(const Shape& in, Parameters&) const {
  return windows(in, spatial, pool_options(*this, spatial), l2_pool);
}

template struct MaxPoolLayer<1>;
template struct MaxPoolLayer<2>;
template struct MaxPoolLayer<3>;
template struct AvgPoolLayer<1>;
template struct AvgPoolLayer<2>;
template struct AvgPoolLayer<3>;
template struct L2PoolLayer<1>;
template struct L2PoolLayer<2>;
template struct L2PoolLayer<3>;

Forward GlobalAvgPool::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return mean(x, spatial_axes(x.shape())); };
}

Forward AdaptiveAvgPool2d::build(const Shape& in, Parameters&) const {
  check_input(in, 2);
  return [sizes = out.expand(2, "out")](const Tensor& x, const Pass&) {
    check_input(x.shape(), 2);
    return part_means(part_means(x, 2, sizes[0]), 3, sizes[1]);
  };
}

Forward GlobalMaxPool::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return max(x, spatial_axes(x.shape())); };
}

Forward Maxout::build(const Shape&, Parameters&) const {
  const PoolOptions options{
      .window = {1}, .channels = window, .channel_stride = stride == 0 ? window : stride, .channel_pad = pad};
  return [=](const Tensor& x, const Pass&) { return max_pool(x, options); };
}

}  // namespace nixie
