// Plans of 16-bit layers for Hopper's kernels: every role, strides, paddings, odd sizes, epilogues, and what falls
// back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/cuda/hopper_conv.h"
#include "tests/backends/cuda_plans.h"

namespace nixie::hopper_plans {

using cuda_plans::apply;
using cuda_plans::carried;
using cuda_plans::Draft;
using cuda_plans::head;
using cuda_plans::load;
using cuda_plans::number;

struct Case {
  std::string name;
  int kernels;  ///< that run code written for 16-bit layers after lowering
  std::function<Draft()> draft;
  int joined = 0;  ///< kernels that others do the work of, less those that lowering adds
  Math math = Math::ieee;
  bool all_bits = false;  ///< f32 operands have all their bits, not a few
};

/// A layer of images [n, c, h, w] and k filters of r x s.
struct Layer {
  std::int64_t n, c, h, w, k, r, s;
  std::vector<int> stride = {1, 1}, pad = {0, 0}, dilation = {1, 1};
  Dtype dtype = Dtype::f16;
  bool row_major = false;  ///< operands need packing first
  Math math = Math::ieee;
  bool bytes = false;  ///< first layers: images are u8, which a scale and a shift per channel normalise

  Shape x() const { return {n, c, h, w}; }
  Shape filter() const { return {k, c, r, s}; }
  Shape y() const {
    return {n, k, (h + 2 * pad[0] - dilation[0] * (r - 1) - 1) / stride[0] + 1,
            (w + 2 * pad[1] - dilation[1] * (s - 1) - 1) / stride[1] + 1};
  }
  Conv conv(ConvRole role) const {
    return {.role = role, .stride = stride, .pad = pad, .dilation = dilation, .math = math};
  }
};

inline int image(Draft& d, Dtype dtype, const Shape& shape, bool row_major = false) {
  const int slot = d.slot(dtype, shape);
  if (!row_major) d.plan.slots[static_cast<std::size_t>(slot)].strides = shape.channels_last();
  return slot;
}
inline int image_output(Draft& d, Dtype dtype, const Shape& shape, bool row_major = false) {
  d.outputs.push_back(image(d, dtype, shape, row_major));
  return d.outputs.back();
}
inline Operand operand(const Draft& d, int slot) {
  const Slot& s = d.plan.slots[static_cast<std::size_t>(slot)];
  return {slot, 0, s.shape, s.strides};
}

enum class Forward { plain, bias_relu, residual, two_stores, row_major_store };

/// The forward pass with one of several epilogues.
inline Draft forward(const std::string& name, const Layer& layer, Forward what) {
  Draft d(name);
  const int x = image(d, layer.dtype, layer.x(), layer.row_major),
            w = image(d, layer.dtype, layer.filter(), layer.row_major);
  const Shape shape = layer.y();
  Kernel k{.label = "conv", .domain = shape};
  k.head = Head{layer.conv(ConvRole::output), {operand(d, x), operand(d, w)}, layer.dtype};
  const int y = image_output(d, layer.dtype, shape, what == Forward::row_major_store);
  k.stores = {d.dense(y)};
  Stage stage{.body = {head()}, .stores = {{0, 0}}};
  if (what != Forward::plain) {
    const int bias = d.slot(Dtype::f32, Shape{1, shape[1], 1, 1});
    k.loads = {d.dense(bias)};
    stage.body = {head(), load(0), apply(Primitive::add, {0, 1}), number(0), apply(Primitive::max, {2, 3})};
    stage.stores = {{4, 0}};
  }
  if (what == Forward::residual) {
    k.loads.push_back(d.dense(image(d, layer.dtype, shape)));
    stage.body.push_back(load(1));
    stage.body.push_back(apply(Primitive::add, {4, 5}));
    stage.stores = {{6, 0}};
  }
  if (what == Forward::two_stores) {
    k.stores.push_back(d.dense(image_output(d, Dtype::f32, shape)));
    stage.stores.push_back({2, 1});
  }
  k.stages = {stage};
  d.plan.kernels = {k};
  return d;
}

/// The input gradient, through a ReLU's gate if wanted.
inline Draft input_grad(const std::string& name, const Layer& layer, bool gate) {
  Draft d(name);
  const int dy = image(d, layer.dtype, layer.y(), layer.row_major),
            w = image(d, layer.dtype, layer.filter(), layer.row_major);
  Kernel k{.label = "conv_input_grad", .domain = layer.x()};
  k.head = Head{layer.conv(ConvRole::input_grad), {operand(d, dy), operand(d, w)}, layer.dtype};
  k.stores = {d.dense(image_output(d, layer.dtype, layer.x()))};
  Stage stage{.body = {head()}, .stores = {{0, 0}}};
  if (gate) {
    k.loads = {d.dense(image(d, layer.dtype, layer.x()))};
    stage.body = {head(), load(0), number(0), apply(Primitive::less, {2, 1}), apply(Primitive::mul, {0, 3})};
    stage.stores = {{4, 0}};
  }
  k.stages = {stage};
  d.plan.kernels = {k};
  return d;
}

/// A bias gradient: images of shape [n, k, h, w] in a slot summed over all but k, in f32, an output.
inline Kernel channel_sums(Draft& d, int slot, const Shape& shape) {
  Kernel sum{.label = "sum", .domain = shape, .reduced = {0, 2, 3}};
  sum.loads = {d.dense(slot)};
  sum.stores = {d.dense(d.output(Dtype::f32, kept_shape(sum)))};
  sum.carried = {Dtype::f32};
  sum.stages = {{.body = {load(0)}, .reductions = {{ReduceKind::sum, 0, 0}}},
                {.full = false, .body = {carried(0)}, .stores = {{0, 0}}}};
  return sum;
}

enum class Gradient { stored, half, with_bias, updated };

/// The filter gradient: stored in f32 or 16 bits, with the bias gradient beside it, or both and an update of the
/// weights by momentum with a 16-bit shadow.
inline Draft filter_grad(const std::string& name, const Layer& layer, Gradient what) {
  Draft d(name);
  const int dy = image(d, layer.dtype, layer.y(), layer.row_major),
            x = image(d, layer.dtype, layer.x(), layer.row_major);
  const Shape shape = layer.filter();
  Kernel k{.label = "conv_filter_grad", .domain = shape};
  k.head = Head{layer.conv(ConvRole::filter_grad), {operand(d, dy), operand(d, x)}, Dtype::f32};
  Stage stage{.body = {head()}, .stores = {{0, 0}}};
  if (what == Gradient::updated) {
    const int master = image_output(d, Dtype::f32, shape), momentum = image_output(d, Dtype::f32, shape),
              shadow = image_output(d, layer.dtype, shape);
    k.loads = {d.dense(master), d.dense(momentum)};
    k.stores = {d.dense(master), d.dense(momentum), d.dense(shadow)};
    stage.body = {load(1),
                  number(0.9),
                  apply(Primitive::mul, {0, 1}),
                  head(),
                  apply(Primitive::add, {2, 3}),
                  number(0.01),
                  apply(Primitive::mul, {4, 5}),
                  load(0),
                  apply(Primitive::sub, {7, 6})};
    stage.stores = {{8, 0}, {4, 1}, {8, 2}};
  } else {
    k.stores = {d.dense(image_output(d, what == Gradient::half ? layer.dtype : Dtype::f32, shape))};
  }
  k.stages = {stage};
  d.plan.kernels = {k};
  if (what == Gradient::with_bias || what == Gradient::updated) {
    d.plan.kernels.push_back(channel_sums(d, dy, layer.y()));
  }
  return d;
}

/// Max pooling of images: output, index, and the gradient through the ReLU that made the images.
struct Pooling {
  std::int64_t n, c, h, w, p, q;
  std::vector<int> window, stride, pad = {0, 0};
  Dtype dtype = Dtype::f16;
};
enum class Pooled { output, trained, gated, scaled };

inline Draft max_pool(const std::string& name, const Pooling& pooling, Pooled what) {
  Draft d(name);
  const Shape x_shape{pooling.n, pooling.c, pooling.h, pooling.w}, y_shape{pooling.n, pooling.c, pooling.p, pooling.q};
  const auto lifted = [](const std::vector<int>& v, int channels) { return std::vector<int>{channels, v[0], v[1]}; };
  Pool pool{.window = lifted(pooling.window, 1), .stride = lifted(pooling.stride, 1), .pad = lifted(pooling.pad, 0)};
  const int x = image(d, pooling.dtype, x_shape), y = image_output(d, pooling.dtype, y_shape);
  const auto add = [&](PoolRole role, const Shape& domain, const std::vector<int>& operands, int store, Dtype dtype) {
    Kernel k{.label = "max_pool", .domain = domain};
    pool.role = role;
    k.head = Head{pool, {}, dtype};
    for (int slot : operands) k.head->operands.push_back(operand(d, slot));
    k.stores = {d.dense(store)};
    k.stages = {{.body = {head(compute_dtype(dtype))}, .stores = {{0, 0}}}};
    d.plan.kernels.push_back(k);
  };
  add(PoolRole::output, y_shape, {x}, y, pooling.dtype);
  if (what == Pooled::output) return d;
  const int index = image_output(d, Dtype::u8, y_shape), dy = image(d, pooling.dtype, y_shape),
            dx = image_output(d, pooling.dtype, x_shape);
  add(PoolRole::index, y_shape, {x}, index, Dtype::u8);
  add(PoolRole::input_grad, x_shape, {dy, index}, dx, pooling.dtype);
  Kernel& gradient = d.plan.kernels.back();
  if (what == Pooled::trained) return d;
  gradient.loads = {d.dense(x)};
  gradient.stages[0].body = {load(0), number(0), apply(Primitive::less, {1, 0}), head(), apply(Primitive::mul, {3, 2})};
  if (what == Pooled::scaled) gradient.stages[0].body[2] = apply(Primitive::add, {1, 0});
  gradient.stages[0].stores = {{4, 0}};
  return d;
}

/// A layer's input gradient and bias gradient from the gradient of a pooling after it, and of a ReLU between if wanted.
struct PooledBy {
  std::vector<int> window;
  bool gated = true;
};
inline Draft pooled_gradient(const std::string& name, const Layer& layer, const PooledBy& by) {
  const std::vector<int>& window = by.window;
  Draft d(name);
  const Shape y_shape = layer.y(),
              p_shape{layer.n, layer.k, (y_shape[2] - window[0]) / 2 + 1, (y_shape[3] - window[1]) / 2 + 1};
  const Pool pool{.window = {1, window[0], window[1]}, .stride = {1, 2, 2}, .pad = {0, 0, 0}};
  const int y = image(d, layer.dtype, y_shape), given = image(d, layer.dtype, p_shape),
            w = image(d, layer.dtype, layer.filter());
  const auto inside = [&](Dtype dtype, const Shape& shape) {
    d.plan.slots.push_back({.name = "internal", .dtype = dtype, .shape = shape, .strides = shape.channels_last()});
    return static_cast<int>(d.plan.slots.size()) - 1;
  };
  const int pooled = image_output(d, layer.dtype, p_shape), index = inside(Dtype::u8, p_shape),
            dy = inside(layer.dtype, y_shape);
  const auto add = [&](PoolRole role, const Shape& domain, const std::vector<int>& operands, int store, Dtype dtype) {
    Kernel kernel{.label = "max_pool", .domain = domain};
    Pool op = pool;
    op.role = role;
    kernel.head = Head{op, {}, dtype};
    for (int slot : operands) kernel.head->operands.push_back(operand(d, slot));
    kernel.stores = {d.dense(store)};
    kernel.stages = {{.body = {head(compute_dtype(dtype))}, .stores = {{0, 0}}}};
    d.plan.kernels.push_back(kernel);
  };
  add(PoolRole::output, p_shape, {y}, pooled, layer.dtype);
  add(PoolRole::index, p_shape, {y}, index, Dtype::u8);
  add(PoolRole::input_grad, y_shape, {given, index}, dy, layer.dtype);
  if (by.gated) {
    d.plan.kernels.back().loads = {d.dense(y)};
    d.plan.kernels.back().stages = {
        {.body = {head(), load(0), number(0), apply(Primitive::less, {2, 1}), apply(Primitive::mul, {0, 3})},
         .stores = {{4, 0}}}};
  }
  Kernel k{.label = "conv_input_grad", .domain = layer.x()};
  k.head = Head{layer.conv(ConvRole::input_grad), {operand(d, dy), operand(d, w)}, layer.dtype};
  k.stores = {d.dense(image_output(d, layer.dtype, layer.x()))};
  k.stages = {{.body = {head()}, .stores = {{0, 0}}}};
  const Kernel sum = channel_sums(d, dy, y_shape);
  d.plan.kernels.push_back(k);
  d.plan.kernels.push_back(sum);
  return d;
}

/// A slot of the plan's own.
inline int internal(Draft& d, Dtype dtype, const Shape& shape, const Strides& strides) {
  d.plan.slots.push_back({.name = "internal", .dtype = dtype, .shape = shape, .strides = strides});
  return static_cast<int>(d.plan.slots.size()) - 1;
}
inline Kernel copy_of(const Draft& d, int from, int to) {
  Kernel k{.label = "cast", .domain = d.plan.slots[static_cast<std::size_t>(to)].shape};
  k.loads = {d.dense(from)};
  k.stores = {d.dense(to)};
  k.stages = {
      {.body = {load(0, compute_dtype(d.plan.slots[static_cast<std::size_t>(from)].dtype))}, .stores = {{0, 0}}}};
  return k;
}

/// x * scale + shift of bytes, with a scale and a shift for each channel.
inline Kernel normalised(Draft& d, int bytes, int to) {
  Kernel k = copy_of(d, bytes, to);
  const Shape channels{1, k.domain[1], 1, 1};
  for (int i = 0; i < 2; ++i) k.loads.push_back(d.dense(d.slot(Dtype::f32, channels)));
  k.stages[0].body = {load(1), load(0, Dtype::i32),          apply(Primitive::cast, {1}), apply(Primitive::mul, {2, 0}),
                      load(2), apply(Primitive::add, {3, 4})};
  k.stages[0].stores = {{5, 0}};
  return k;
}

enum class First { forward, trained, pooled };

/// A first layer that reads row-major f32 images through a cast (`row_major`: a copy of row-major images of the layer's
/// type; `bytes`: normalised bytes), with bias and ReLU; trained: its filter and bias gradients too; pooled: through a
/// 2x2 max pooling after the ReLU.
inline Draft first_layer(const std::string& name, const Layer& layer, First what) {
  Draft d(name);
  const Shape y_shape = layer.y(), p_shape{layer.n, layer.k, y_shape[2] / 2, y_shape[3] / 2};
  const int source = d.slot(layer.bytes       ? Dtype::u8
                            : layer.row_major ? layer.dtype
                                              : Dtype::f32,
                            layer.x()),
            x = internal(d, layer.dtype, layer.x(), layer.x().row_major()), w = image(d, layer.dtype, layer.filter()),
            bias = d.slot(Dtype::f32, Shape{1, layer.k, 1, 1});
  const int y = what == First::pooled ? internal(d, layer.dtype, y_shape, y_shape.channels_last())
                                      : image_output(d, layer.dtype, y_shape);
  Kernel k{.label = "conv", .domain = y_shape};
  k.head = Head{layer.conv(ConvRole::output), {operand(d, x), operand(d, w)}, layer.dtype};
  k.loads = {d.dense(bias)};
  k.stores = {d.dense(y)};
  k.stages = {{.body = {head(), load(0), apply(Primitive::add, {0, 1}), number(0), apply(Primitive::max, {2, 3})},
               .stores = {{4, 0}}}};
  d.plan.kernels = {layer.bytes ? normalised(d, source, x) : copy_of(d, source, x), k};
  if (what == First::forward) return d;
  int dy = 0;
  if (what == First::trained) {
    dy = image(d, layer.dtype, y_shape);
  } else {
    Pool pool{.window = {1, 2, 2}, .stride = {1, 2, 2}, .pad = {0, 0, 0}};
    const int given = image(d, layer.dtype, p_shape);
    const int pooled = image_output(d, layer.dtype, p_shape),
              index = internal(d, Dtype::u8, p_shape, p_shape.channels_last()),
              back = internal(d, layer.dtype, p_shape, p_shape.channels_last());
    dy = internal(d, layer.dtype, y_shape, y_shape.channels_last());
    const auto add = [&](PoolRole role, const Shape& domain, const std::vector<int>& operands, int store, Dtype dtype) {
      Kernel kernel{.label = "max_pool", .domain = domain};
      pool.role = role;
      kernel.head = Head{pool, {}, dtype};
      for (int slot : operands) kernel.head->operands.push_back(operand(d, slot));
      kernel.stores = {d.dense(store)};
      kernel.stages = {{.body = {head(compute_dtype(dtype))}, .stores = {{0, 0}}}};
      d.plan.kernels.push_back(kernel);
    };
    add(PoolRole::output, p_shape, {y}, pooled, layer.dtype);
    d.plan.kernels.push_back(copy_of(d, given, back));
    add(PoolRole::index, p_shape, {y}, index, Dtype::u8);
    add(PoolRole::input_grad, y_shape, {back, index}, dy, layer.dtype);
    d.plan.kernels.back().loads = {d.dense(y)};
    d.plan.kernels.back().stages = {
        {.body = {head(), load(0), number(0), apply(Primitive::less, {2, 1}), apply(Primitive::mul, {0, 3})},
         .stores = {{4, 0}}}};
  }
  Kernel g{.label = "conv_filter_grad", .domain = layer.filter()};
  g.head = Head{layer.conv(ConvRole::filter_grad), {operand(d, dy), operand(d, x)}, Dtype::f32};
  const int master = image_output(d, Dtype::f32, layer.filter());
  g.loads = {d.dense(master)};
  g.stores = {d.dense(master)};
  g.stages = {{.body = {load(0), head(), apply(Primitive::sub, {0, 1})}, .stores = {{2, 0}}}};
  const Kernel sum = channel_sums(d, dy, y_shape);
  d.plan.kernels.push_back(g);
  d.plan.kernels.push_back(sum);
  return d;
}

/// A linear layer's weights updated by momentum with the gradient dy^T x; dy [n, k], x [n, c].
inline Draft matrix_update(const std::string& name, std::int64_t n, std::int64_t c, std::int64_t k, Dtype dtype) {
  Draft d(name);
  const int dy = d.slot(dtype, {n, k}), x = d.slot(dtype, {n, c});
  const Shape shape{k, c};
  const int master = d.output(Dtype::f32, shape), momentum = d.output(Dtype::f32, shape),
            shadow = d.output(dtype, shape);
  Kernel kernel{.label = "matmul", .domain = shape};
  kernel.head = Head{Matmul{}, {{dy, 0, {k, n}, {1, k}}, {x, 0, {n, c}, {c, 1}}}, Dtype::f32};
  kernel.loads = {d.dense(master), d.dense(momentum)};
  kernel.stores = {d.dense(master), d.dense(momentum), d.dense(shadow)};
  kernel.stages = {{.body = {load(1), number(0.9), apply(Primitive::mul, {0, 1}), head(), apply(Primitive::add, {2, 3}),
                             number(0.01), apply(Primitive::mul, {4, 5}), load(0), apply(Primitive::sub, {7, 6})},
                    .stores = {{8, 0}, {4, 1}, {8, 2}}}};
  d.plan.kernels = {kernel};
  return d;
}

/// relu(a b + bias of a row), as a large linear layer computes it; a [m, k], b [k, n] in rows or in columns.
inline Draft matrix_product(const std::string& name, std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype,
                            bool rows_of_b) {
  Draft d(name);
  const int a = d.slot(dtype, {m, k}), b = d.slot(dtype, rows_of_b ? Shape{k, n} : Shape{n, k}),
            bias = d.slot(Dtype::f32, {m, 1});
  Kernel kernel{.label = "matmul", .domain = {m, n}};
  const Strides of_b = rows_of_b ? Strides{n, 1} : Strides{1, k};
  kernel.head = Head{Matmul{}, {{a, 0, {m, k}, {k, 1}}, {b, 0, {k, n}, of_b}}, dtype};
  kernel.loads = {{.slot = bias, .strides = {1, 0}}};
  kernel.stores = {d.dense(d.output(dtype, kernel.domain)), d.dense(d.output(Dtype::f32, kernel.domain))};
  kernel.stages = {{.body = {head(), load(0), apply(Primitive::add, {0, 1}), number(0), apply(Primitive::max, {2, 3})},
                    .stores = {{4, 0}, {2, 1}}}};
  d.plan.kernels = {kernel};
  return d;
}

inline int joined_by(Forward) { return 0; }
inline int joined_by(bool) { return 0; }
inline int joined_by(Gradient what) { return what == Gradient::with_bias || what == Gradient::updated; }
inline int joined_by(First what) { return what == First::forward ? 0 : what == First::trained ? 1 : 4; }

inline std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, int kernels, auto make, const Layer& layer, auto what) {
    all.push_back({name, kernels, [=] { return make(name, layer, what); }, joined_by(what) + layer.bytes});
  };
  const Dtype bf16 = Dtype::bf16;
  add("forward_one_pixel", 1, forward, {1, 128, 1, 1, 256, 1, 1}, Forward::plain);
  add("forward_tiny", 1, forward, {1, 8, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
  add("forward_k24", 1, forward, {2, 24, 13, 6, 24, 3, 2, {1, 1}, {1, 0}, {1, 1}, bf16}, Forward::bias_relu);
  add("forward_k96_5x5", 1, forward, {2, 96, 12, 12, 96, 5, 5, {1, 1}, {2, 2}}, Forward::residual);
  add("forward_k264", 1, forward, {2, 96, 12, 10, 264, 5, 5}, Forward::bias_relu);
  add("forward_stride_2", 1, forward, {4, 72, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Forward::residual);
  add("forward_stride_2x1", 1, forward, {5, 16, 9, 9, 32, 1, 1, {2, 1}, {0, 0}, {1, 1}, bf16}, Forward::plain);
  add("forward_dilated", 1, forward, {2, 64, 20, 22, 192, 3, 3, {1, 1}, {2, 2}, {2, 2}}, Forward::two_stores);
  add("forward_7x7", 1, forward, {2, 32, 30, 30, 128, 7, 7, {4, 3}, {3, 2}}, Forward::bias_relu);
  add("forward_13x13", 1, forward, {9, 128, 13, 13, 256, 3, 3, {1, 1}, {1, 1}}, Forward::row_major_store);
  add("forward_27x27", 1, forward, {3, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}, {1, 1}, bf16}, Forward::bias_relu);
  add("forward_k384", 1, forward, {7, 64, 13, 13, 384, 3, 3, {1, 1}, {1, 1}}, Forward::residual);
  add("forward_packed", 1, forward, {3, 64, 9, 11, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f16, true},
      Forward::bias_relu);
  add("forward_patches", 1, forward, {3, 64, 28, 24, 128, 3, 3, {1, 1}, {1, 1}}, Forward::residual);
  add("forward_patches_c128", 1, forward, {6, 128, 56, 56, 256, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
  add("forward_patches_of_pairs", 1, forward, {15, 72, 28, 28, 128, 3, 3, {1, 1}, {1, 1}}, Forward::two_stores);
  add("forward_patches_5x5", 1, forward, {2, 96, 28, 28, 256, 5, 5, {1, 1}, {0, 0}, {1, 1}, bf16}, Forward::bias_relu);
  add("forward_patches_k64", 1, forward, {1, 80, 28, 23, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, bf16}, Forward::bias_relu);
  add("forward_patches_k192", 1, forward, {2, 64, 27, 32, 192, 3, 3, {1, 1}, {1, 1}}, Forward::row_major_store);
  add("forward_falls_back_c12", 0, forward, {2, 12, 9, 9, 32, 3, 3}, Forward::bias_relu);

  add("input_grad_tiny", 1, input_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, true);
  add("input_grad_c64", 1, input_grad, {2, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}}, true);
  add("input_grad_c96", 1, input_grad, {2, 96, 12, 12, 256, 5, 5, {1, 1}, {0, 0}, {1, 1}, bf16}, true);
  add("input_grad_c64_3x3", 1, input_grad, {3, 64, 17, 30, 72, 3, 3, {1, 1}, {1, 1}}, true);
  add("input_grad_c64_unpadded", 1, input_grad, {2, 64, 9, 8, 136, 3, 5, {1, 1}, {2, 0}, {1, 1}, bf16}, true);
  add("input_grad_c32_5x5", 1, input_grad, {5, 32, 31, 7, 64, 3, 5, {1, 1}, {0, 1}}, false);
  add("input_grad_c96_padded", 1, input_grad, {1, 96, 40, 41, 24, 3, 5, {1, 1}, {2, 4}}, true);
  add("input_grad_one_column", 1, input_grad, {7, 64, 5, 5, 64, 5, 5}, true);
  add("input_grad_few_positions", 1, input_grad, {1, 32, 2, 5, 16, 1, 5, {1, 1}, {0, 2}}, true);
  add("input_grad_c200", 1, input_grad, {3, 200, 13, 6, 128, 3, 2, {1, 1}, {1, 0}}, false);
  add("input_grad_c256", 1, input_grad, {5, 256, 13, 13, 384, 3, 3, {1, 1}, {1, 1}}, true);
  add("input_grad_dilated", 1, input_grad, {4, 192, 14, 15, 64, 3, 3, {1, 1}, {2, 1}, {2, 1}}, true);
  add("input_grad_patches_c64", 1, input_grad, {2, 64, 27, 47, 136, 3, 3, {1, 1}, {1, 1}}, true);
  add("input_grad_patches", 1, input_grad, {5, 64, 112, 112, 128, 3, 3, {1, 1}, {1, 1}}, true);
  add("input_grad_patches_c256", 1, input_grad, {1, 256, 56, 56, 128, 3, 3, {1, 1}, {1, 1}, {1, 1}, bf16}, true);
  add("input_grad_patches_padded", 1, input_grad, {3, 128, 28, 32, 72, 3, 5, {1, 1}, {0, 4}}, false);
  add("input_grad_stride_2_falls_back", 0, input_grad, {2, 32, 9, 9, 32, 3, 3, {2, 2}, {1, 1}}, true);

  add("filter_grad_tiny", 1, filter_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Gradient::with_bias);
  add("filter_grad_c96", 1, filter_grad, {5, 96, 13, 6, 200, 3, 2, {1, 1}, {1, 0}}, Gradient::stored);
  add("filter_grad_c48", 1, filter_grad, {3, 48, 19, 19, 64, 3, 3, {1, 1}, {0, 0}, {1, 1}, bf16}, Gradient::half);
  add("filter_grad_stride_2", 1, filter_grad, {4, 64, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Gradient::updated);
  add("filter_grad_5x5", 1, filter_grad, {2, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}}, Gradient::updated);
  add("filter_grad_13x13", 1, filter_grad, {9, 128, 13, 13, 256, 3, 3, {1, 1}, {1, 1}, {1, 1}, bf16},
      Gradient::with_bias);
  add("filter_grad_1x1", 1, filter_grad, {1, 32, 6, 6, 1024, 1, 1}, Gradient::updated);
  add("filter_grad_c8_falls_back", 0, filter_grad, {2, 8, 9, 9, 16, 3, 3}, Gradient::stored);

  const auto add_pool = [&](const std::string& name, int kernels, const Pooling& pooling, Pooled what) {
    all.push_back({name, kernels, [=] { return max_pool(name, pooling, what); }, kernels == 2});
  };
  add_pool("pool_3x3_output", 1, {2, 8, 5, 5, 2, 2, {3, 3}, {2, 2}}, Pooled::output);
  add_pool("pool_3x3", 2, {3, 64, 55, 55, 27, 27, {3, 3}, {2, 2}, {0, 0}, bf16}, Pooled::gated);
  add_pool("pool_2x2", 2, {2, 16, 14, 12, 7, 6, {2, 2}, {2, 2}}, Pooled::gated);
  add_pool("pool_padded", 2, {2, 24, 13, 17, 7, 9, {3, 3}, {2, 2}, {1, 1}}, Pooled::gated);
  add_pool("pool_uneven", 2, {1, 8, 7, 9, 7, 10, {3, 2}, {1, 1}, {1, 1}, bf16}, Pooled::trained);
  add_pool("pool_sparse", 2, {2, 32, 9, 9, 3, 3, {2, 2}, {3, 3}}, Pooled::scaled);
  add_pool("pool_ceil_mode", 2, {2, 8, 6, 6, 3, 3, {3, 3}, {2, 2}}, Pooled::gated);
  add_pool("pool_3x3_f32", 2, {3, 64, 27, 29, 13, 14, {3, 3}, {2, 2}, {0, 0}, Dtype::f32}, Pooled::gated);
  add_pool("pool_2x2_f32", 2, {2, 16, 14, 12, 7, 6, {2, 2}, {2, 2}, {0, 0}, Dtype::f32}, Pooled::gated);
  add_pool("pool_uneven_f32", 2, {1, 8, 7, 9, 7, 10, {3, 2}, {1, 1}, {1, 1}, Dtype::f32}, Pooled::trained);
  add_pool("pool_c12_falls_back", 0, {2, 12, 6, 6, 3, 3, {2, 2}, {2, 2}}, Pooled::gated);

  all.push_back({"matrix_update", 1, [] { return matrix_update("matrix_update", 100, 2112, 2056, Dtype::f16); }});
  all.push_back({"matrix_update_bf16", 1, [] { return matrix_update("matrix_update", 64, 4096, 1024, Dtype::bf16); }});
  all.push_back(
      {"matrix_update_300_terms", 1, [] { return matrix_update("matrix_update", 300, 136, 2056, Dtype::f16); }});
  all.push_back(
      {"matrix_update_3_terms", 1, [] { return matrix_update("matrix_update", 3, 1032, 1000, Dtype::bf16); }});
  all.push_back(
      {"matrix_update_falls_back", 0, [] { return matrix_update("matrix_update", 600, 1024, 512, Dtype::f16); }});

  const auto add_product = [&](const std::string& name, int kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                               Dtype dtype, bool rows_of_b) {
    all.push_back({name, kernels, [=] { return matrix_product(name, m, n, k, dtype, rows_of_b); }});
  };
  add_product("matrix_product", 1, 1000, 776, 200, Dtype::f16, true);
  add_product("matrix_product_bf16", 1, 4096, 256, 72, bf16, true);
  add_product("matrix_product_columns", 1, 776, 1000, 136, Dtype::f16, false);
  add_product("matrix_product_small_falls_back", 0, 512, 256, 64, Dtype::f16, true);

  add("first_stride_4", 1, first_layer, {2, 3, 47, 47, 64, 11, 11, {4, 4}, {2, 2}}, First::forward);
  add("first_stride_4_k96", 2, first_layer, {3, 3, 51, 47, 96, 11, 9, {4, 4}, {0, 0}, {1, 1}, bf16}, First::trained);
  add("first_stride_4_overfeat", 2, first_layer, {2, 3, 231, 231, 96, 11, 11, {4, 4}, {0, 0}}, First::trained);
  add("first_stride_4_wide", 2, first_layer, {1, 3, 31, 95, 32, 10, 12, {4, 4}, {2, 2}}, First::trained);
  add("first_3x3", 2, first_layer, {2, 3, 32, 32, 64, 3, 3, {1, 1}, {1, 1}}, First::trained);
  add("first_3x3_unpadded", 2, first_layer, {1, 3, 6, 5, 128, 3, 3, {1, 1}, {0, 0}, {1, 1}, bf16}, First::trained);
  add("first_3x3_pooled", 2, first_layer, {3, 3, 33, 226, 64, 3, 3, {1, 1}, {1, 1}}, First::pooled);
  add("first_3x3_pooled_k128", 2, first_layer, {2, 3, 18, 20, 128, 3, 3, {1, 1}, {0, 0}}, First::pooled);
  add("first_3x3_as_it_lies", 2, first_layer, {2, 3, 20, 37, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f16, true},
      First::trained);
  add("first_3x3_pooled_as_it_lies", 2, first_layer, {3, 3, 17, 50, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, bf16, true},
      First::pooled);
  // In f16, which holds every sum: where rounding makes two of a window equal, the first wins, unlike in doubles.
  const auto add_pooled = [&](const std::string& name, const Layer& layer) {
    all.push_back({name, 3, [=] { return first_layer(name, layer, First::pooled); }, 3});
  };
  add_pooled("first_stride_4_pooled", {2, 3, 231, 231, 96, 11, 11, {4, 4}, {0, 0}});
  add_pooled("first_stride_4_pooled_k32", {3, 3, 99, 87, 32, 11, 11, {4, 4}, {0, 0}});
  add_pooled("first_stride_4_pooled_k64", {1, 3, 66, 63, 64, 10, 9, {4, 4}, {2, 1}});
  all.push_back({"first_bytes_stride_4_pooled", 3,
                 [] {
                   Layer layer{1, 3, 66, 63, 64, 10, 9, {4, 4}, {2, 1}};
                   layer.bytes = true;
                   return first_layer("first_bytes_stride_4_pooled", layer, First::pooled);
                 },
                 4});
  add_pooled("pooled_patches", {9, 64, 28, 56, 256, 3, 3, {1, 1}, {1, 1}});
  add_pooled("pooled_patches_of_pairs", {18, 64, 27, 28, 256, 3, 3, {1, 1}, {1, 1}});
  add_pooled("pooled_patches_5x5", {22, 32, 28, 28, 256, 5, 5, {1, 1}, {0, 0}});
  add("first_3x3_in_rows", 2, first_layer, {2, 3, 20, 40, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f16, true},
      First::trained);
  add("first_3x3_pooled_in_rows", 2, first_layer, {3, 3, 33, 224, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, bf16, true},
      First::pooled);
  add("first_3x3_unpadded_in_rows", 2, first_layer, {70, 3, 31, 16, 64, 3, 3, {1, 1}, {0, 0}, {1, 1}, Dtype::f16, true},
      First::pooled);
  add("first_7x7_falls_back", 0, first_layer, {2, 3, 21, 21, 64, 7, 7, {2, 2}, {3, 3}}, First::forward);
  // Bytes, normalised where they are read: one kernel less. Padding is zero afterwards, whatever the shift.
  const auto add_bytes = [&](const std::string& name, Layer layer, First what, int kernels = 2) {
    layer.bytes = true;
    add("first_bytes_" + name, kernels, first_layer, layer, what);
  };
  add_bytes("stride_4", {2, 3, 47, 47, 64, 11, 11, {4, 4}, {2, 2}}, First::trained);
  add_bytes("stride_4_k96", {3, 3, 51, 47, 96, 11, 9, {4, 4}, {3, 0}, {1, 1}, bf16}, First::trained);
  add_bytes("stride_4_forward", {2, 3, 30, 41, 32, 11, 11, {4, 4}, {5, 4}}, First::forward, 1);
  add_bytes("3x3", {2, 3, 20, 37, 64, 3, 3, {1, 1}, {1, 1}}, First::trained);
  add_bytes("3x3_unpadded", {1, 3, 6, 5, 128, 3, 3, {1, 1}, {0, 0}, {1, 1}, bf16}, First::trained);
  add_bytes("3x3_pooled", {3, 3, 17, 50, 64, 3, 3, {1, 1}, {1, 1}}, First::pooled);
  add_bytes("3x3_in_rows", {2, 3, 20, 48, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, bf16}, First::trained);
  add_bytes("3x3_pooled_in_rows", {3, 3, 33, 224, 64, 3, 3, {1, 1}, {1, 1}}, First::pooled);
  add_bytes("3x3_unpadded_in_rows", {70, 3, 31, 16, 64, 3, 3, {1, 1}, {0, 0}}, First::pooled);
  // What no such kernel takes is normalised by a kernel of its own.
  all.push_back({"first_bytes_7x7_falls_back", 0, [] {
                   Layer layer{2, 3, 21, 21, 64, 7, 7, {2, 2}, {3, 3}};
                   layer.bytes = true;
                   return first_layer("first_bytes_7x7_falls_back", layer, First::forward);
                 }});

  // f32 layers by multiply-adds; those of 3x3 and 5x5 are too small for Winograd's tiles to pay.
  const auto add_float = [&](const std::string& name, auto make, Layer layer, auto what, int kernels = 1) {
    const std::string full = name + "_ieee";
    layer.dtype = Dtype::f32;
    all.push_back({full, kernels, [=] { return make(full, layer, what); }, 0, Math::ieee, true});
  };
  add_float("forward_one_pixel", forward, {1, 128, 1, 1, 256, 1, 1}, Forward::plain);
  add_float("forward_c4", forward, {1, 4, 5, 7, 4, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
  add_float("forward_tiny", forward, {1, 8, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
  add_float("forward_c24", forward, {2, 24, 13, 6, 24, 3, 2, {1, 1}, {1, 0}}, Forward::bias_relu);
  add_float("forward_c36", forward, {2, 36, 13, 6, 100, 3, 2, {1, 1}, {0, 1}}, Forward::two_stores);
  add_float("forward_c40", forward, {3, 40, 14, 14, 48, 3, 3, {1, 1}, {1, 1}}, Forward::plain);
  add_float("forward_k96_5x5", forward, {2, 96, 12, 12, 96, 5, 5, {1, 1}, {2, 2}}, Forward::residual);
  add_float("forward_k264", forward, {2, 96, 12, 10, 264, 5, 5}, Forward::bias_relu);
  add_float("forward_stride_2", forward, {4, 72, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Forward::residual);
  add_float("forward_stride_2x1", forward, {5, 16, 9, 9, 32, 1, 1, {2, 1}}, Forward::plain);
  add_float("forward_dilated", forward, {2, 64, 20, 22, 192, 3, 3, {1, 1}, {2, 2}, {2, 2}}, Forward::two_stores);
  add_float("forward_7x7", forward, {2, 32, 30, 30, 128, 7, 7, {4, 3}, {3, 2}}, Forward::bias_relu);
  add_float("forward_13x13", forward, {9, 128, 13, 13, 256, 3, 3, {1, 1}, {1, 1}}, Forward::row_major_store);
  add_float("forward_many_tiles", forward, {40, 32, 33, 31, 128, 3, 4, {1, 1}, {1, 2}}, Forward::bias_relu);
  add_float("forward_packed", forward, {3, 64, 9, 11, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f32, true},
            Forward::bias_relu);
  add_float("forward_rows_3x3", forward, {32, 3, 64, 64, 64, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
  add_float("forward_rows_c6", forward, {64, 6, 40, 40, 32, 3, 3}, Forward::residual);
  add_float("forward_rows_7x7", forward, {4, 3, 112, 114, 64, 7, 7, {2, 2}, {3, 3}}, Forward::bias_relu);
  add_float("forward_rows_11x11", forward, {3, 3, 131, 127, 96, 11, 11, {4, 4}, {2, 2}, {1, 1}, Dtype::f32, true},
            Forward::bias_relu);
  add_float("forward_rows_small_fall_back", forward, {2, 3, 32, 32, 64, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu, 0);
  add_float("forward_falls_back_c1", forward, {3, 1, 28, 28, 32, 5, 5, {1, 1}, {2, 2}}, Forward::bias_relu, 0);
  add_float("input_grad_tiny", input_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, true);
  add_float("input_grad_c12", input_grad, {2, 12, 9, 9, 20, 3, 2, {1, 1}, {1, 0}}, false);
  add_float("input_grad_c64", input_grad, {2, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}}, true);
  add_float("input_grad_c96", input_grad, {2, 96, 12, 12, 256, 5, 5}, true);
  add_float("input_grad_unpadded", input_grad, {2, 64, 9, 8, 136, 3, 5, {1, 1}, {2, 0}}, true);
  add_float("input_grad_c200", input_grad, {3, 200, 13, 6, 128, 3, 2, {1, 1}, {1, 0}}, false);
  add_float("input_grad_c256", input_grad, {5, 256, 13, 13, 384, 3, 4, {1, 1}, {1, 1}}, true);
  add_float("input_grad_dilated", input_grad, {4, 192, 14, 15, 64, 3, 3, {1, 1}, {2, 1}, {2, 1}}, true);
  add_float("input_grad_stride_2_falls_back", input_grad, {2, 32, 9, 9, 32, 3, 3, {2, 2}, {1, 1}}, true, 0);
  add_float("filter_grad_tiny", filter_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Gradient::stored);
  add_float("filter_grad_c4", filter_grad, {3, 4, 9, 9, 4, 3, 3, {1, 1}, {1, 1}}, Gradient::stored);
  add_float("filter_grad_c20", filter_grad, {3, 20, 19, 19, 36, 3, 5, {1, 1}, {0, 2}}, Gradient::updated);
  add_float("filter_grad_c100", filter_grad, {2, 100, 9, 12, 64, 3, 3, {1, 1}, {1, 1}}, Gradient::stored);
  add_float("filter_grad_c96", filter_grad, {5, 96, 13, 6, 200, 3, 2, {1, 1}, {1, 0}}, Gradient::stored);
  add_float("filter_grad_stride_2", filter_grad, {4, 64, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Gradient::updated);
  add_float("filter_grad_5x5", filter_grad, {2, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}}, Gradient::updated);
  add_float("filter_grad_13x13", filter_grad, {9, 128, 13, 13, 256, 3, 3, {1, 1}, {1, 1}}, Gradient::stored);
  add_float("filter_grad_1x1", filter_grad, {1, 32, 6, 6, 1024, 1, 1}, Gradient::updated);

  add_float("filter_grad_rows_few_fall_back", filter_grad, {32, 3, 64, 64, 64, 3, 3, {1, 1}, {1, 1}}, Gradient::updated,
            0);
  add_float("filter_grad_rows_7x7", filter_grad, {4, 3, 112, 114, 64, 7, 7, {2, 2}, {3, 3}}, Gradient::stored);
  add_float("filter_grad_rows_11x11", filter_grad, {3, 3, 131, 127, 96, 11, 11, {4, 4}, {2, 2}}, Gradient::updated);

  // f32 layers in halves: a scale and a copy to halves of both operands, and of row-packed images one more, with their
  // padding.
  for (Math math : {Math::tf32, Math::fp32}) {
    // Apart from halves, layers under fp32 run multiply-adds, whose operands are packed as well.
    const int apart = math == Math::fp32 ? 2 : 0;
    const auto add32 = [&](const std::string& name, int kernels, auto make, Layer layer, auto what, int added = 4) {
      const std::string full = name + (math == Math::tf32 ? "_tf32" : "_fp32");
      layer.dtype = Dtype::f32, layer.math = math;
      all.push_back({full, kernels, [=] { return make(full, layer, what); }, -added, math, true});
    };
    add32("forward_tiny", 1, forward, {1, 8, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
    add32("forward_k96_5x5", 1, forward, {2, 96, 12, 12, 96, 5, 5, {1, 1}, {2, 2}}, Forward::residual);
    add32("forward_k264", 1, forward, {2, 96, 12, 10, 264, 5, 5}, Forward::bias_relu);
    add32("forward_stride_2", 1, forward, {4, 72, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Forward::residual);
    add32("forward_k64", 1, forward, {6, 128, 30, 30, 64, 3, 3, {1, 1}, {1, 1}}, Forward::two_stores);
    add32("forward_13x13", 1, forward, {9, 128, 13, 13, 256, 3, 3, {1, 1}, {1, 1}}, Forward::row_major_store);
    add32("forward_packed", 1, forward, {3, 64, 9, 11, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f32, true},
          Forward::bias_relu, 4 - apart);
    add32("forward_other_c12", math == Math::fp32, forward, {2, 12, 9, 9, 32, 3, 3}, Forward::bias_relu, 0);
    add32("forward_rows_c1", 1, forward, {3, 1, 28, 28, 32, 5, 5, {1, 1}, {2, 2}}, Forward::bias_relu, 5);
    add32("forward_rows_7x7", 1, forward, {2, 3, 31, 29, 64, 7, 7, {2, 2}, {3, 3}}, Forward::bias_relu, 5);
    add32("input_grad_tiny", 1, input_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, true);
    add32("input_grad_c96", 1, input_grad, {2, 96, 12, 12, 256, 5, 5, {1, 1}, {0, 0}}, true);
    add32("input_grad_c256", 1, input_grad, {5, 256, 13, 13, 384, 3, 3, {1, 1}, {1, 1}}, false);
    add32("input_grad_stride_2_falls_back", 0, input_grad, {2, 32, 9, 9, 32, 3, 3, {2, 2}, {1, 1}}, true, 0);
    // The index is made with the output (one kernel less), and dy is made in halves (no filling).
    add32("pooled_2x2", 3, pooled_gradient, {3, 24, 14, 16, 64, 3, 3, {1, 1}, {1, 1}}, PooledBy{{2, 2}}, 2);
    add32("pooled_3x3", 3, pooled_gradient, {2, 64, 27, 27, 64, 3, 3, {1, 1}, {1, 1}}, PooledBy{{3, 3}}, 2);
    add32("filter_grad_tiny", 1, filter_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Gradient::with_bias);
    add32("filter_grad_c96", 1, filter_grad, {5, 96, 13, 6, 200, 3, 2, {1, 1}, {1, 0}}, Gradient::stored);
    add32("filter_grad_stride_2", 1, filter_grad, {4, 64, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Gradient::updated);
    add32("filter_grad_5x5", 1, filter_grad, {2, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}}, Gradient::updated);
    add32("filter_grad_rows_c1_falls_back", 0, filter_grad, {3, 1, 28, 28, 32, 5, 5, {1, 1}, {2, 2}}, Gradient::updated,
          0);
    add32("filter_grad_rows_c2", 1, filter_grad, {3, 2, 28, 28, 32, 5, 5, {1, 1}, {2, 2}}, Gradient::updated, 5);
    add32("filter_grad_rows_7x7", 1, filter_grad, {2, 3, 31, 29, 64, 7, 7, {2, 2}, {3, 3}}, Gradient::stored, 5);
    const bool rows = math == Math::fp32;  // tf32 takes the kernels for first layers, whose gradient stands alone
    add32("forward_stride_4", 1, forward, {2, 3, 47, 47, 64, 11, 11, {4, 4}, {2, 2}}, Forward::bias_relu, rows ? 5 : 4);
    add32("filter_grad_stride_4", 1, filter_grad, {2, 3, 47, 47, 64, 11, 11, {4, 4}, {2, 2}}, Gradient::updated, 5);
    add32("forward_3x3", 1, forward, {2, 3, 32, 32, 64, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu, rows ? 5 : 4);
    add32("filter_grad_3x3", 1, filter_grad, {2, 3, 32, 32, 64, 3, 3, {1, 1}, {1, 1}}, Gradient::with_bias, 5);
  }
  return all;
}

}  // namespace nixie::hopper_plans
