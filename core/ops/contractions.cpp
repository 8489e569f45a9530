// Matrix products, convolution and pooling: shape rules and gradients.
#include <algorithm>
#include <limits>

#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/operands.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

std::vector<int> per_axis(const std::vector<int>& values, int axes, const char* op, const char* what, int least) {
  check(values.size() == 1 || static_cast<int>(values.size()) == axes, op, ": ", what, " has ", values.size(),
        " numbers, expected 1 or ", axes);
  std::vector<int> result = values.size() == 1 ? std::vector<int>(static_cast<std::size_t>(axes), values[0]) : values;
  for (int value : result) check(value >= least, op, ": ", what, " is ", value, ", expected at least ", least);
  return result;
}

// Positions of a window along an axis. A size is at most 2^48 and an option below 2^31: their products fit 128 bits.
using Wide = __int128;
std::int64_t window_count(std::int64_t in, std::int64_t window, int stride, int pad, int dilation) {
  const Wide span = Wide{dilation} * (window - 1) + 1, room = in + Wide{2} * pad;
  return room < span ? 0 : static_cast<std::int64_t>((room - span) / stride + 1);
}

// With any stride beyond the room that a window has, there is one position. The least such stride gives the same:
// backends work by phases, as many as the stride.
int bounded_stride(std::int64_t in, std::int64_t window, int stride, int pad, int dilation) {
  const Wide span = Wide{dilation} * (window - 1) + 1, room = in + Wide{2} * pad;
  return static_cast<int>(std::min<Wide>(stride, std::max<Wide>(room - span, 0) + 1));
}

Dtype dtype_of_product(const Tensor& a, const Tensor& b) {
  const Dtype dtype = product_dtype(promote(a.dtype(), b.dtype()));
  check(is_floating(dtype) || dtype == Dtype::i32, "a product of ", a.dtype(), " and ", b.dtype(),
        ": matrix products and convolutions are not computed in ", dtype, "; cast to i32 or f64");
  return dtype;
}

Conv conv_op(ConvRole role, const ConvOptions& options, int axes, const char* name) {
  check(options.groups >= 1, name, ": groups is ", options.groups, ", expected at least 1");
  return {.role = role,
          .stride = per_axis(options.stride, axes, name, "stride", 1),
          .pad = per_axis(options.pad, axes, name, "pad", 0),
          .dilation = per_axis(options.dilation, axes, name, "dilation", 1),
          .groups = options.groups};
}

int spatial_axes(const Tensor& x, const Tensor& w, const char* name) {
  check(x.rank() >= 3 && x.rank() <= 5, name, ": input is ", x.shape(),
        ", expected [N, C, spatial...] with 1 to 3 spatial axes");
  check(w.rank() == x.rank(), name, ": filter is ", w.shape(), " for an input of ", x.shape(),
        ", expected the same rank");
  check(std::find(w.shape().begin() + 2, w.shape().end(), 0) == w.shape().end(), name, ": the filter ", w.shape(),
        " has an empty window");
  return x.rank() - 2;
}

Op with_sums(const auto& product, const Sums& sums, Dtype dtype) {
  if (sums.every == 0) return product;
  check(is_floating(dtype) && dtype != Dtype::f64, "sums of ", dtype, " are not rounded, expected f32 or halves");
  return RoundedProduct{product, sums};
}

Tensor conv_node(const Conv& op, const Sums& sums, ConvRole role, const Tensor& a, const Tensor& b,
                 const Shape& shape) {
  Conv with_role = op;
  with_role.role = role;
  const Dtype dtype = dtype_of_product(a, b);
  return Tensor::make(with_sums(with_role, sums, dtype), {retype(a, dtype), retype(b, dtype)}, shape, dtype);
}

Sums sums_of(const Sums& asked) { return asked.every > 0 ? asked : OperandScope::sums(); }

}  // namespace

Tensor matmul(const Tensor& plain_left, const Tensor& plain_right, MatmulOptions options) {
  const Tensor left = OperandScope::operand(plain_left), right = OperandScope::operand(plain_right);
  check(left.rank() >= 1 && right.rank() >= 1, "matmul: ", left.shape(), " x ", right.shape(),
        ": a scalar has no rows");
  Tensor a = left.rank() == 1 ? expand_dims(left, {0}) : left, b = right.rank() == 1 ? expand_dims(right, {1}) : right;
  if (options.trans_a) a = transpose(a, -1, -2);
  if (options.trans_b) b = transpose(b, -1, -2);
  check(a.shape()[-1] == b.shape()[-2], "matmul: ", a.shape(), " x ", b.shape(), ": inner sizes ", a.shape()[-1],
        " and ", b.shape()[-2], " differ");
  auto batch_of = [](const Tensor& x) {
    return Shape(std::vector<std::int64_t>(x.shape().begin(), x.shape().end() - 2));
  };
  const Shape batch = broadcast(batch_of(a), batch_of(b));
  auto with_batch = [&](const Tensor& x) {
    std::vector<std::int64_t> sizes = batch.sizes();
    sizes.insert(sizes.end(), {x.shape()[-2], x.shape()[-1]});
    return broadcast_to(x, Shape(std::move(sizes)));
  };
  const Dtype dtype = dtype_of_product(a, b);
  std::vector<std::int64_t> sizes = batch.sizes();
  sizes.insert(sizes.end(), {a.shape()[-2], b.shape()[-1]});
  // Products of two 8-bit floats are exact in f32, those of bytes in i32, so kernels may read them as they are.
  const Sums sums = sums_of(options.sums);
  const auto is_byte = [](const Tensor& x) { return x.dtype() == Dtype::u8 || x.dtype() == Dtype::i8; };
  const bool as_stored = sums.every == 0 && ((is_f8(a.dtype()) && is_f8(b.dtype())) || (is_byte(a) && is_byte(b)));
  const auto operand = [&](const Tensor& x) { return as_stored ? with_batch(x) : retype(with_batch(x), dtype); };
  Tensor y = Tensor::make(with_sums(Matmul{}, sums, dtype), {operand(a), operand(b)}, Shape(std::move(sizes)), dtype);
  if (left.rank() == 1) y = squeeze(y, {-2});
  if (right.rank() == 1) y = squeeze(y, {-1});
  return OperandScope::product(y);
}
namespace {

Gradients matmul_gradient(const Sums& sums, const Tensor& g, const std::vector<Tensor>& x) {
  // An operand read transposed gets its gradient as a transpose too: the views cancel, and what was transposed (a
  // weight) finds its gradient in its own order, where the update fuses with the product.
  const MatmulOptions left{.trans_a = true, .sums = sums}, right{.trans_b = true, .sums = sums};
  const Tensor a = is_a<Permute>(x[0]) ? transpose(matmul(x[1], g, right), -1, -2) : matmul(g, x[1], right);
  const Tensor b = is_a<Permute>(x[1]) ? transpose(matmul(g, x[0], left), -1, -2) : matmul(x[0], g, left);
  return {a, b};
}

// The three roles are closed under differentiation: each is linear in both of its inputs.
Gradients conv_gradient(const Conv& op, const Sums& sums, const Tensor& g, const std::vector<Tensor>& x) {
  const Tensor &a = x[0], &b = x[1];
  const auto role = [&](ConvRole to, const Tensor& left, const Tensor& right, const Tensor& of) {
    return conv_node(op, sums, to, left, right, of.shape());
  };
  switch (op.role) {
    case ConvRole::output:
      return {role(ConvRole::input_grad, g, b, a), role(ConvRole::filter_grad, g, a, b)};
    case ConvRole::input_grad:
      return {role(ConvRole::output, g, b, a), role(ConvRole::filter_grad, a, g, b)};
    case ConvRole::filter_grad:
      break;
  }
  return {role(ConvRole::output, b, g, a), role(ConvRole::input_grad, a, g, b)};
}

}  // namespace

Gradients gradient(const Matmul&, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return matmul_gradient({}, g, x);
}
Gradients gradient(const Conv& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return conv_gradient(op, {}, g, x);
}
Gradients gradient(const RoundedProduct& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  const auto* conv = std::get_if<Conv>(&op.product);
  return conv ? conv_gradient(*conv, op.sums, g, x) : matmul_gradient(op.sums, g, x);
}

Tensor conv(const Tensor& x, const Tensor& w, const ConvOptions& options) {
  const int axes = spatial_axes(x, w, "conv");
  Conv op = conv_op(ConvRole::output, options, axes, "conv");
  check(x.shape()[1] == w.shape()[1] * op.groups && w.shape()[0] % op.groups == 0, "conv: input is ", x.shape(),
        ", filter is ", w.shape(), " with groups ", op.groups, ", expected [K, ", x.shape()[1],
        " / groups, ...] and K divisible by groups");
  std::vector<std::int64_t> sizes{x.shape()[0], w.shape()[0]};
  for (int i = 0; i < axes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    sizes.push_back(window_count(x.shape()[i + 2], w.shape()[i + 2], op.stride[at], op.pad[at], op.dilation[at]));
    check(sizes.back() > 0, "conv: a window of ", w.shape()[i + 2], " does not fit input ", x.shape(), " with pad ",
          op.pad[at]);
    op.stride[at] = bounded_stride(x.shape()[i + 2], w.shape()[i + 2], op.stride[at], op.pad[at], op.dilation[at]);
  }
  const Tensor left = OperandScope::operand(x), right = OperandScope::operand(w);
  const Shape shape(std::move(sizes));
  return OperandScope::product(conv_node(op, sums_of(options.sums), ConvRole::output, left, right, shape));
}

Tensor deconv(const Tensor& x, const Tensor& w, const ConvOptions& options, const std::vector<int>& output_pad) {
  const int axes = spatial_axes(x, w, "deconv");
  Conv op = conv_op(ConvRole::input_grad, options, axes, "deconv");
  const std::vector<int> extra = per_axis(output_pad, axes, "deconv", "output_pad", 0);
  check(x.shape()[1] == w.shape()[0] && w.shape()[0] % op.groups == 0, "deconv: input is ", x.shape(), ", filter is ",
        w.shape(), " with groups ", op.groups, ", expected [", x.shape()[1], ", C / groups, ...]");
  std::vector<std::int64_t> sizes{x.shape()[0], w.shape()[1] * op.groups};
  for (int i = 0; i < axes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    check(extra[at] < op.stride[at] || extra[at] < op.dilation[at], "deconv: output_pad ", extra[at],
          " is not below stride or dilation");
    const Wide size = Wide{x.shape()[i + 2] - 1} * op.stride[at] - Wide{2} * op.pad[at] +
                      Wide{op.dilation[at]} * (w.shape()[i + 2] - 1) + 1 + extra[at];
    sizes.push_back(static_cast<std::int64_t>(std::clamp<Wide>(size, 0, Shape::kMostElements + 1)));
    check(sizes.back() > 0, "deconv: pad ", op.pad[at], " leaves no output for input ", x.shape());
    op.stride[at] = bounded_stride(sizes.back(), w.shape()[i + 2], op.stride[at], op.pad[at], op.dilation[at]);
  }
  const Tensor left = OperandScope::operand(x), right = OperandScope::operand(w);
  const Shape shape(std::move(sizes));
  return OperandScope::product(conv_node(op, sums_of(options.sums), ConvRole::input_grad, left, right, shape));
}

namespace {

/// From a window's first position to its last, both included.
std::int64_t extent_of(std::int64_t window, std::int64_t dilation) { return dilation * (window - 1) + 1; }

std::int64_t positions(const Pool& op) {
  std::int64_t count = 1;
  for (int size : op.window) count *= size;
  return count;
}

Tensor pool_node(const Pool& op, PoolRole role, std::vector<Tensor> inputs, const Shape& shape) {
  Pool with_role = op;
  with_role.role = role;
  const Dtype computed = compute_dtype(inputs[0].dtype());
  check(is_floating(computed) || computed == Dtype::i32, "pooling is not computed in ", computed,
        "; cast to i32 or f64");
  Dtype dtype = inputs[0].dtype();
  if (role == PoolRole::index) {
    constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
    check(positions(op) <= kMost, "max_pool: the gradient of windows over ", positions(op),
          " elements, expected at most ", kMost, "; use smaller windows");
    dtype = positions(op) <= 256 ? Dtype::u8 : Dtype::i32;
  }
  return Tensor::make(std::move(with_role), std::move(inputs), shape, dtype);
}

/// A pooling as its options say, and its result's shape.
struct Windows {
  Pool op;
  Shape result;
};

Windows windows_of(PoolKind kind, const Tensor& x, const PoolOptions& options, const char* name) {
  check(x.rank() >= 2 && x.rank() <= 5, name, ": input is ", x.shape(),
        ", expected [N, C, spatial...] with up to 3 spatial axes");
  const int axes = x.rank() - 2;
  Pool op{.kind = kind, .count_pad = options.count_pad};
  op.window = per_axis(options.window, axes, name, "window", 1);
  op.stride = options.stride.empty() ? op.window : per_axis(options.stride, axes, name, "stride", 1);
  op.pad = per_axis(options.pad, axes, name, "pad", 0);
  op.dilation = per_axis(options.dilation, axes, name, "dilation", 1);
  op.window.insert(op.window.begin(), options.channels);
  op.stride.insert(op.stride.begin(), options.channel_stride ? options.channel_stride : options.channels);
  op.pad.insert(op.pad.begin(), options.channel_pad);
  op.dilation.insert(op.dilation.begin(), 1);
  std::vector<std::int64_t> sizes{x.shape()[0]};
  for (int i = 0; i <= axes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int window = op.window[at], stride = op.stride[at], pad = op.pad[at], dilation = op.dilation[at];
    const std::int64_t extent = extent_of(window, dilation);
    check(window >= 1 && stride >= 1 && pad >= 0 && pad <= extent / 2, name, ": window ", window, ", stride ", stride,
          " and pad ", pad, " do not go together; pad is at most half the window");
    const std::int64_t in = x.shape()[i + 1];
    std::int64_t count = window_count(in, window, stride, pad, dilation);
    const std::int64_t room = in + std::int64_t{2} * pad;
    // A remainder gets a window of its own, as in PyTorch, unless that would begin in the padding behind the input.
    const std::int64_t rest = room - extent - (count - 1) * stride;
    if (options.ceil_mode && rest > 0 && count * stride < in + pad) ++count;
    check(count > 0, name, ": a window of ", extent, " does not fit input ", x.shape());
    sizes.push_back(count);
  }
  return {std::move(op), Shape(std::move(sizes))};
}

// The same windows without the positions that are padding in all of them: each reads the same elements in the same
// order, and none is larger than three times its axis. Backends loop over a window's positions.
Pool without_unread(const Windows& windows, const Shape& in) {
  Pool op = windows.op;
  for (std::size_t at = 0; at < op.window.size(); ++at) {
    const std::int64_t size = in[static_cast<int>(at) + 1], count = windows.result[static_cast<int>(at) + 1];
    std::int64_t window = op.window[at], stride = op.stride[at], pad = op.pad[at], step = op.dilation[at];
    if (count == 1) stride = bounded_stride(size, window, op.stride[at], op.pad[at], op.dilation[at]);
    window = std::min(window, (size + pad + step - 1) / step);
    // The front, up to where the last window begins.
    const std::int64_t front = std::max<std::int64_t>(0, pad - (count - 1) * stride) / step;
    window -= front, pad -= front * step;
    // Two windows may skip positions between them, as long as the second ends behind the input; three or more have a
    // stride within the input.
    if (count == 2) {
      const std::int64_t behind = (stride - pad + window * step - size) / step;
      const std::int64_t both = std::clamp<std::int64_t>(behind, 0, std::min(pad, stride - 1) / step);
      window -= both, pad -= both * step, stride -= both * step;
    }
    op.window[at] = static_cast<int>(std::max<std::int64_t>(1, window));  // an empty axis is read nowhere
    op.stride[at] = static_cast<int>(stride), op.pad[at] = static_cast<int>(pad);
    if (op.window[at] == 1) op.dilation[at] = 1;
  }
  if (std::ranges::all_of(op.dilation, [](int step) { return step == 1; })) op.dilation.clear();
  return op;
}

}  // namespace

Tensor max_pool(const Tensor& x, const PoolOptions& options) {
  const Windows windows = windows_of(PoolKind::max, x, options, "max_pool");
  return pool_node(without_unread(windows, x.shape()), PoolRole::output, {widened(x)}, windows.result);
}
Tensor average_pool(const Tensor& images, const PoolOptions& options) {
  const Tensor x = floating(images);
  const Windows windows = windows_of(PoolKind::average, x, options, "average_pool");
  const Pool op = without_unread(windows, x.shape());
  Tensor y = pool_node(op, PoolRole::output, {x}, windows.result);
  if (!options.count_pad) return y;
  for (std::size_t at = 0; at < op.window.size(); ++at) {
    const int axis = static_cast<int>(at) + 1, read = op.window[at];
    const std::int64_t window = windows.op.window[at], stride = windows.op.stride[at], step = windows.op.dilation[at];
    const std::int64_t room = x.shape()[axis] + std::int64_t{2} * windows.op.pad[at] - extent_of(window, step);
    if ((windows.result[axis] - 1) * stride > room) {  // a last window counts no further than the padding reaches
      const Tensor excess = maximum(coordinate(windows.result, axis) * stride - room, 0);
      const Tensor beyond = step == 1 ? excess : floor_divide(excess + (step - 1), step);
      y = y * (read / cast(window - beyond, y.dtype()));
    } else if (read < window) {
      y = y * (static_cast<double>(read) / static_cast<double>(window));
    }
  }
  return y;
}
Tensor l2_pool(const Tensor& images, const PoolOptions& options) {
  const Tensor x = floating(images);
  PoolOptions whole = options;
  whole.count_pad = true;  // then average * positions is the sum
  const Windows windows = windows_of(PoolKind::average, x, whole, "l2_pool");
  const Pool op = without_unread(windows, x.shape());
  const Tensor sums = pool_node(op, PoolRole::output, {square(x)}, windows.result) * static_cast<double>(positions(op));
  // A norm's slope at zero is any number up to 1; the root's would be infinite, and times x NaN. It is taken to be 0.
  const Tensor some = sums > 0;
  return where(some, sqrt(where(some, sums, 1)), sums);
}

Gradients gradient(const Pool& op, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x) {
  const Shape& shape = x[0].shape();
  const bool max = op.kind == PoolKind::max;
  switch (op.role) {
    case PoolRole::output:
      if (!max) return {pool_node(op, PoolRole::input_grad, {g}, shape)};
      return {pool_node(op, PoolRole::input_grad, {g, pool_node(op, PoolRole::index, {x[0]}, y.shape())}, shape)};
    case PoolRole::input_grad:
      if (!max) return {pool_node(op, PoolRole::output, {g}, shape)};
      return {pool_node(op, PoolRole::gather, {g, x[1]}, shape), {}};
    case PoolRole::gather:
      return {pool_node(op, PoolRole::input_grad, {g, x[1]}, shape), {}};
    case PoolRole::index:
      break;
  }
  return {{}};
}

}  // namespace nixie
