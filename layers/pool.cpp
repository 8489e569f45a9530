// What pooling layers build.
#include "nixie/layers/pool.h"

namespace nixie {
namespace {

template <class Layer>
PoolOptions pool_options(const Layer& layer, int spatial) {
  PoolOptions options{.window = layer.window.expand(spatial, "window"), .pad = layer.pad.expand(spatial, "pad")};
  options.stride = layer.stride.expand(spatial, "stride");
  for (std::size_t i = 0; i < options.stride.size(); ++i)
    if (options.stride[i] == 0) options.stride[i] = options.window[i];
  return options;
}

Forward windows(const Shape& in, int spatial, const PoolOptions& options,
                Tensor (*pool)(const Tensor&, const PoolOptions&)) {
  check_input(in, spatial);
  return [=](const Tensor& x, Pass&) {
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

template struct MaxPoolLayer<1>;
template struct MaxPoolLayer<2>;
template struct MaxPoolLayer<3>;
template struct AvgPoolLayer<1>;
template struct AvgPoolLayer<2>;
template struct AvgPoolLayer<3>;

Forward L2Pool2d::build(const Shape& in, Parameters&) const { return windows(in, 2, pool_options(*this, 2), l2_pool); }

Forward GlobalAvgPool::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, Pass&) { return mean(x, spatial_axes(x.shape())); };
}

Forward GlobalMaxPool::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, Pass&) { return max(x, spatial_axes(x.shape())); };
}

Forward Maxout::build(const Shape&, Parameters&) const {
  const PoolOptions options{
      .window = {1}, .channels = window, .channel_stride = stride == 0 ? window : stride, .channel_pad = pad};
  return [=](const Tensor& x, Pass&) { return max_pool(x, options); };
}

}  // namespace nixie
