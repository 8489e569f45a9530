// ONNX's products: matrices, convolutions and windows.
#include <algorithm>
#include <cmath>
#include <limits>

#include "nixie/tests/onnx/node.h"

namespace nixie::onnx_nodes {
namespace {

using Ints = std::vector<std::int64_t>;

std::vector<int> to_ints(const Ints& values) { return {values.begin(), values.end()}; }

// The pads of windows before and after the spatial axes of x.
struct Windows {
  Ints window, stride, dilation, low, high;

  Windows(const Node& node, const Shape& x, Ints sizes)
      : window(std::move(sizes)),
        stride(node.ints("strides", Ints(window.size(), 1))),
        dilation(node.ints("dilations", Ints(window.size(), 1))),
        low(window.size(), 0),
        high(low) {
    const Ints pads = node.ints("pads", Ints(2 * window.size(), 0));
    const std::string automatic = node.text("auto_pad", "NOTSET");
    for (std::size_t i = 0; i < window.size(); ++i) {
      low[i] = pads[i], high[i] = pads[i + window.size()];
      if (!automatic.starts_with("SAME")) continue;
      const std::int64_t size = x[static_cast<int>(i) + 2], outputs = (size + stride[i] - 1) / stride[i];
      const std::int64_t total =
          std::max<std::int64_t>((outputs - 1) * stride[i] + (window[i] - 1) * dilation[i] + 1 - size, 0);
      low[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high[i] = total - low[i];
    }
  }
  bool is_symmetric() const { return low == high; }
  /// Pooling pads by itself: the same before and after, at most half a window's extent.
  bool pools() const {
    bool fits = is_symmetric();
    for (std::size_t i = 0; i < window.size(); ++i) fits = fits && 2 * low[i] <= dilation[i] * (window[i] - 1) + 1;
    return fits;
  }
};

// Pads the spatial axes.
Tensor padded(const Tensor& x, const Windows& windows, double value) {
  Ints low(2, 0), high(2, 0);
  low.insert(low.end(), windows.low.begin(), windows.low.end());
  high.insert(high.end(), windows.high.begin(), windows.high.end());
  return pad(x, low, high, value);
}

Tensor per_channel(const Tensor& bias, int rank) {
  Ints sizes(static_cast<std::size_t>(rank), 1);
  sizes[1] = -1;
  return reshape(bias, sizes);
}

Ints spatial_sizes(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

Results conv_of(const Node& node) {
  const Tensor &x = node.in(0), &w = node.in(1);
  const Windows windows(node, x.shape(), spatial_sizes(w.shape()));
  ConvOptions options{.stride = to_ints(windows.stride),
                      .pad = to_ints(windows.low),
                      .dilation = to_ints(windows.dilation),
                      .groups = static_cast<int>(node.integer("group", 1))};
  if (!windows.is_symmetric()) options.pad = {0};
  Tensor y = conv(windows.is_symmetric() ? x : padded(x, windows, 0), w, options);
  if (node.has(2)) y = y + per_channel(node.in(2), y.rank());
  return {y};
}

// Without padding first, then cut, as ONNX's pads may differ before and after.
Results deconv_of(const Node& node) {
  const Tensor &x = node.in(0), &w = node.in(1);
  const Ints window = spatial_sizes(w.shape());
  const std::size_t axes = window.size();
  const Ints stride = node.ints("strides", Ints(axes, 1)), dilation = node.ints("dilations", Ints(axes, 1));
  const Ints extra = node.ints("output_padding", Ints(axes, 0)), shape = node.ints("output_shape");
  Ints pads = node.ints("pads", Ints(2 * axes, 0));
  const std::string automatic = node.text("auto_pad", "NOTSET");
  Tensor y = deconv(
      x, w,
      {.stride = to_ints(stride), .dilation = to_ints(dilation), .groups = static_cast<int>(node.integer("group", 1))});
  std::vector<Index> kept(2, Index::all());
  Ints more(static_cast<std::size_t>(x.rank()), 0);
  for (std::size_t i = 0; i < axes; ++i) {
    const int axis = static_cast<int>(i) + 2;
    std::int64_t low = pads[i], size = y.shape()[axis] + extra[i] - pads[i] - pads[i + axes];
    if (!shape.empty() || automatic.starts_with("SAME")) {
      size = shape.empty() ? x.shape()[axis] * stride[i] : shape[i];
      const std::int64_t total = y.shape()[axis] + extra[i] - size;
      low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      low = std::max<std::int64_t>(low, 0);
    }
    more[i + 2] = std::max<std::int64_t>(low + size - y.shape()[axis], 0);
    kept.push_back(Index::range(low, low + size));
  }
  y = slice(pad(y, Ints(more.size(), 0), more), kept);
  if (node.has(2)) y = y + per_channel(node.in(2), y.rank());
  return {y};
}

PoolOptions pool_options(const Node& node, const Windows& windows) {
  return {.window = to_ints(windows.window),
          .stride = to_ints(windows.stride),
          .pad = windows.pools() ? to_ints(windows.low) : std::vector<int>{0},
          .dilation = to_ints(windows.dilation),
          .ceil_mode = node.integer("ceil_mode", 0) != 0,
          .count_pad = node.integer("count_include_pad", 0) != 0};
}

Results max_pool_of(const Node& node) {
  const Tensor& x = node.in(0);
  if (node.outputs() > 1) throw Outside{"no positions of maxima"};
  const Windows windows(node, x.shape(), node.ints("kernel_shape"));
  const double lowest = is_floating(x.dtype()) ? -std::numeric_limits<double>::infinity()
                                               : static_cast<double>(x.dtype() == Dtype::u8 ? 0 : -128);
  return {max_pool(windows.pools() ? x : padded(x, windows, lowest), pool_options(node, windows))};
}

Results average_pool_of(const Node& node) {
  const Tensor& x = node.in(0);
  const Windows windows(node, x.shape(), node.ints("kernel_shape"));
  const PoolOptions options = pool_options(node, windows);
  if (windows.pools()) return {average_pool(x, options)};
  if (options.count_pad) return {average_pool(padded(x, windows, 0), options)};
  const Tensor inside = padded(ones(x.shape()), windows, 0);
  return {average_pool(padded(x, windows, 0), options) / average_pool(inside, options)};
}

Results lp_pool_of(const Node& node) {
  const Tensor& x = node.in(0);
  const double p = node.number("p", 2);
  const Windows windows(node, x.shape(), node.ints("kernel_shape"));
  PoolOptions options = pool_options(node, windows);
  if (p == 2) return {l2_pool(windows.pools() ? x : padded(x, windows, 0), options)};
  options.count_pad = true;
  double count = 1;
  for (const std::int64_t size : windows.window) count *= static_cast<double>(size);
  const Tensor powers = pow(abs(windows.pools() ? x : padded(x, windows, 0)), p);
  return {pow(average_pool(powers, options) * count, 1 / p)};
}

Axes spatial_axes(const Tensor& x) {
  const Axes all = all_axes(x.shape());
  return std::vector<int>(all.begin() + 2, all.end());
}

Results gemm(const Node& node) {
  Tensor y = matmul(node.in(0), node.in(1),
                    {.trans_a = node.integer("transA", 0) != 0, .trans_b = node.integer("transB", 0) != 0});
  if (const double alpha = node.number("alpha", 1); alpha != 1) y = y * alpha;
  if (node.has(2)) y = y + node.in(2) * node.number("beta", 1);
  return {y};
}

// Upsample, and Resize where it means what nixie's does: whole sizes, the same kernels and places. Antialiasing
// differs: nixie's is PyTorch's, whose kernels end elsewhere.
Results resize_of(const Node& node) {
  const bool is_resize = node.op() == "Resize";
  const std::size_t scales_at = is_resize ? 2 : 1, sizes_at = 3;
  const Tensor& x = node.in(0);
  const std::string mode = node.text("mode", "nearest");
  const std::string places = node.text("coordinate_transformation_mode", is_resize ? "half_pixel" : "asymmetric");
  ResizeOptions options{.align_corners = places == "align_corners"};
  if (mode != "nearest") options.mode = mode == "linear" ? ResizeMode::linear : ResizeMode::cubic;
  const bool rounds_down = node.text("nearest_mode", is_resize ? "round_prefer_floor" : "floor") == "floor";
  const bool same_places =
      mode == "nearest" ? places == "asymmetric" && rounds_down : places == "half_pixel" || options.align_corners;
  const bool same_kernel = node.integer("exclude_outside", 0) == 0 && node.integer("antialias", 0) == 0 &&
                           node.number("cubic_coeff_a", -0.75) == -0.75;
  if (!same_places || !same_kernel || x.rank() < 3 || x.rank() > 5 || node.has("axes"))
    throw Outside{"no resizing with these places or kernels"};
  Ints sizes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const double in = static_cast<double>(x.shape()[axis]);
    const double out =
        node.has(scales_at) ? in * node.in(scales_at).to_vector<double>()[i] : node.in(sizes_at).to_vector<double>()[i];
    if (out != std::floor(out) || (axis < 2 && out != in)) throw Outside{"no resizing to parts of an element"};
    if (axis >= 2) sizes.push_back(static_cast<std::int64_t>(out));
  }
  return {resize(x, sizes, options)};
}

}  // namespace

void add_products(Functions& functions) {
  functions["MatMul"] = [](const Node& node) { return Results{matmul(node.in(0), node.in(1))}; };
  functions["Gemm"] = gemm;
  functions["Conv"] = conv_of;
  functions["ConvTranspose"] = deconv_of;
  functions["MaxPool"] = max_pool_of;
  functions["AveragePool"] = average_pool_of;
  functions["LpPool"] = lp_pool_of;
  functions["Resize"] = functions["Upsample"] = resize_of;
  functions["GlobalAveragePool"] = [](const Node& node) { return Results{mean(node.in(0), spatial_axes(node.in(0)))}; };
  functions["GlobalMaxPool"] = [](const Node& node) { return Results{max(node.in(0), spatial_axes(node.in(0)))}; };
  functions["Einsum"] = [](const Node& node) {
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < node.size(); ++i) operands.push_back(node.in(i));
    return Results{einsum(node.text("equation", ""), operands)};
  };
}

}  // namespace nixie::onnx_nodes
