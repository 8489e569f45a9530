// Plans of layers, written by hand for the tests of lowering and of Hopper's kernels: convolutions in every role, with
// their poolings, first layers, products.
#pragma once

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "nixie/tests/backends/cuda/plans.h"

namespace nixie::hopper_plans {

using cuda_plans::apply;
using cuda_plans::carried;
using cuda_plans::Draft;
using cuda_plans::head;
using cuda_plans::load;
using cuda_plans::number;

/// A layer of images [n, c, h, w] and k filters of r x s, written as tables of tuning name it: "2x3x47x47 by 64x11x11
/// stride 4 pad 2x1 bf16". One number is that of both axes; words that are left out have the values below.
struct Layer {
  Layer(const char* text);
  Layer(const std::string& text) : Layer(text.c_str()) {}

  std::int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0;
  std::vector<int> stride = {1, 1}, pad = {0, 0}, dilation = {1, 1};
  Dtype dtype = Dtype::f16;
  bool row_major = false;  ///< operands need packing first
  Math math = Math::ieee;
  bool bytes = false;  ///< first layers: images are u8, which a scale and a shift per channel normalise
  int groups = 1;      ///< "depthwise": one for each channel

  Shape x() const { return {n, c, h, w}; }
  Shape filter() const { return {k, c / groups, r, s}; }
  Shape y() const {
    return {n, k, (h + 2 * pad[0] - dilation[0] * (r - 1) - 1) / stride[0] + 1,
            (w + 2 * pad[1] - dilation[1] * (s - 1) - 1) / stride[1] + 1};
  }
  Conv conv(ConvRole role) const {
    return {.role = role, .stride = stride, .pad = pad, .dilation = dilation, .groups = groups, .math = math};
  }
};

inline Layer::Layer(const char* text) {
  std::istringstream words(text);
  const auto read = [&](const std::vector<std::int64_t*>& sizes) {
    char x = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) words >> *sizes[i], i + 1 < sizes.size() && words >> x;
  };
  const auto pair = [&](std::vector<int>& of_axes) {
    words >> of_axes[0];
    of_axes[1] = of_axes[0];
    if (words.peek() == 'x') words.ignore(), words >> of_axes[1];
  };
  std::string word;
  read({&n, &c, &h, &w}), words >> word, read({&k, &r, &s});
  check(word == "by" && s > 0, "no layer: ", text);
  const std::map<std::string, std::function<void()>> known{{"stride", [&] { pair(stride); }},
                                                           {"pad", [&] { pair(pad); }},
                                                           {"dilation", [&] { pair(dilation); }},
                                                           {"groups", [&] { words >> groups; }},
                                                           {"depthwise", [&] { groups = static_cast<int>(c); }},
                                                           {"row_major", [&] { row_major = true; }},
                                                           {"bytes", [&] { bytes = true; }},
                                                           {"fp32", [&] { math = Math::fp32; }},
                                                           {"tf32", [&] { math = Math::tf32; }}};
  while (words >> word)
    if (const auto found = known.find(word); found != known.end())
      found->second();
    else
      dtype = dtype_named(word);
}

inline int image(Draft& d, Dtype dtype, const Shape& shape, bool row_major = false) {
  const int slot = d.slot(dtype, shape);
  if (!row_major) d.plan.slots[at(slot)].strides = shape.channels_last();
  return slot;
}
inline int image_output(Draft& d, Dtype dtype, const Shape& shape, bool row_major = false) {
  d.outputs.push_back(image(d, dtype, shape, row_major));
  return d.outputs.back();
}
/// A slot of the plan's own.
inline int internal(Draft& d, Dtype dtype, const Shape& shape, const Strides& strides) {
  d.plan.slots.push_back({.name = "internal", .dtype = dtype, .shape = shape, .strides = strides});
  return static_cast<int>(d.plan.slots.size()) - 1;
}
inline Operand operand(const Draft& d, int slot) {
  const Slot& s = d.plan.slots[at(slot)];
  return {slot, 0, s.shape, s.strides};
}

/// Adds a kernel that stores its head's result.
inline Kernel& add_head(Draft& d, const char* label, decltype(Head::op) op, const Shape& domain,
                        const std::vector<int>& operands, int store, Dtype dtype) {
  Kernel k{.label = label, .domain = domain, .head = Head{std::move(op), {}, dtype}, .stores = {d.dense(store)}};
  for (int slot : operands) k.head->operands.push_back(operand(d, slot));
  k.stages = {{.body = {head(compute_dtype(dtype))}, .stores = {{0, 0}}}};
  d.plan.kernels.push_back(k);
  return d.plan.kernels.back();
}

/// Adds a max pooling in a role; `window` and the others for the two axes of pixels.
inline Kernel& add_pool(Draft& d, PoolRole role, const Shape& domain, const std::vector<int>& operands, int store,
                        Dtype dtype, const std::vector<int>& window = {2, 2}, const std::vector<int>& stride = {2, 2},
                        const std::vector<int>& pad = {0, 0}) {
  const auto lifted = [](const std::vector<int>& v, int channels) { return std::vector<int>{channels, v[0], v[1]}; };
  const Pool pool{.role = role, .window = lifted(window, 1), .stride = lifted(stride, 1), .pad = lifted(pad, 0)};
  return add_head(d, "max_pool", pool, domain, operands, store, dtype);
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
  Kernel sum{.label = "sum", .domain = shape, .reduced = shape.rank() == 2 ? Axes{0} : Axes{0, 2, 3}};
  sum.loads = {d.dense(slot)};
  sum.stores = {d.dense(d.output(Dtype::f32, kept_shape(sum)))};
  sum.carried = {Dtype::f32};
  sum.stages = {{.body = {load(0)}, .reductions = {{ReduceKind::sum, 0, 0}}},
                {.full = false, .body = {carried(0)}, .stores = {{0, 0}}}};
  return sum;
}

enum class Gradient { stored, half, with_bias, updated };

/// Makes a gradient's kernel update weights by momentum; the state: weights, momentum, a shadow of the weights.
inline void update_by(const Draft& d, Kernel& k, const std::array<int, 3>& state) {
  k.loads = {d.dense(state[0]), d.dense(state[1])};
  k.stores = {d.dense(state[0]), d.dense(state[1]), d.dense(state[2])};
  k.stages = {{.body = {load(1), number(0.9), apply(Primitive::mul, {0, 1}), head(), apply(Primitive::add, {2, 3}),
                        number(0.01), apply(Primitive::mul, {4, 5}), load(0), apply(Primitive::sub, {7, 6})},
               .stores = {{8, 0}, {4, 1}, {8, 2}}}};
}

/// The filter gradient: stored in f32 or 16 bits, with the bias gradient beside it, or both and an update of the
/// weights by momentum with a 16-bit shadow.
inline Draft filter_grad(const std::string& name, const Layer& layer, Gradient what) {
  Draft d(name);
  const int dy = image(d, layer.dtype, layer.y(), layer.row_major),
            x = image(d, layer.dtype, layer.x(), layer.row_major);
  const Shape shape = layer.filter();
  Kernel k{.label = "conv_filter_grad", .domain = shape};
  k.head = Head{layer.conv(ConvRole::filter_grad), {operand(d, dy), operand(d, x)}, Dtype::f32};
  k.stages = {{.body = {head()}, .stores = {{0, 0}}}};
  if (what == Gradient::updated) {
    update_by(
        d, k,
        {image_output(d, Dtype::f32, shape), image_output(d, Dtype::f32, shape), image_output(d, layer.dtype, shape)});
  } else {
    k.stores = {d.dense(image_output(d, what == Gradient::half ? layer.dtype : Dtype::f32, shape))};
  }
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
enum class Pooled { output, trained, gated };

inline Draft max_pool(const std::string& name, const Pooling& pooling, Pooled what) {
  Draft d(name);
  const Shape x_shape{pooling.n, pooling.c, pooling.h, pooling.w}, y_shape{pooling.n, pooling.c, pooling.p, pooling.q};
  const int x = image(d, pooling.dtype, x_shape), y = image_output(d, pooling.dtype, y_shape);
  const auto add = [&](PoolRole role, const Shape& domain, const std::vector<int>& operands, int store, Dtype dtype) {
    add_pool(d, role, domain, operands, store, dtype, pooling.window, pooling.stride, pooling.pad);
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
  gradient.stages[0].stores = {{4, 0}};
  return d;
}

/// A layer's input gradient and bias gradient from the gradient of a pooling after it.
inline Draft pooled_gradient(const std::string& name, const Layer& layer, const std::vector<int>& window) {
  Draft d(name);
  const Shape y_shape = layer.y(),
              p_shape{layer.n, layer.k, (y_shape[2] - window[0]) / 2 + 1, (y_shape[3] - window[1]) / 2 + 1};
  const int y = image(d, layer.dtype, y_shape), given = image(d, layer.dtype, p_shape),
            w = image(d, layer.dtype, layer.filter());
  const auto inside = [&](Dtype dtype, const Shape& shape) { return internal(d, dtype, shape, shape.channels_last()); };
  const int pooled = image_output(d, layer.dtype, p_shape), index = inside(Dtype::u8, p_shape),
            dy = inside(layer.dtype, y_shape);
  add_pool(d, PoolRole::output, p_shape, {y}, pooled, layer.dtype, window);
  add_pool(d, PoolRole::index, p_shape, {y}, index, Dtype::u8, window);
  add_pool(d, PoolRole::input_grad, y_shape, {given, index}, dy, layer.dtype, window);
  add_head(d, "conv_input_grad", layer.conv(ConvRole::input_grad), layer.x(), {dy, w},
           image_output(d, layer.dtype, layer.x()), layer.dtype);
  d.plan.kernels.push_back(channel_sums(d, dy, y_shape));
  return d;
}

inline Kernel copy_of(const Draft& d, int from, int to) {
  Kernel k{.label = "cast", .domain = d.plan.slots[at(to)].shape};
  k.loads = {d.dense(from)};
  k.stores = {d.dense(to)};
  k.stages = {{.body = {load(0, compute_dtype(d.plan.slots[at(from)].dtype))}, .stores = {{0, 0}}}};
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
/// 2x2 max pooling after the ReLU, whose gate is before the pooling's gradient.
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
    const int given = image(d, layer.dtype, p_shape);
    const int pooled = image_output(d, layer.dtype, p_shape),
              index = internal(d, Dtype::u8, p_shape, p_shape.channels_last()),
              back = internal(d, layer.dtype, p_shape, p_shape.channels_last());
    dy = internal(d, layer.dtype, y_shape, y_shape.channels_last());
    add_pool(d, PoolRole::output, p_shape, {y}, pooled, layer.dtype);
    d.plan.kernels.push_back(copy_of(d, given, back));
    d.plan.kernels.back().loads.push_back(d.dense(pooled));
    d.plan.kernels.back().stages = {
        {.body = {load(0), load(1), number(0), apply(Primitive::less, {2, 1}), apply(Primitive::mul, {0, 3})},
         .stores = {{4, 0}}}};
    add_pool(d, PoolRole::index, p_shape, {y}, index, Dtype::u8);
    add_pool(d, PoolRole::input_grad, y_shape, {back, index}, dy, layer.dtype);
  }
  Kernel g{.label = "conv_filter_grad", .domain = layer.filter()};
  g.head = Head{layer.conv(ConvRole::filter_grad), {operand(d, dy), operand(d, x)}, Dtype::f32};
  const int master = image_output(d, Dtype::f32, layer.filter());
  g.loads = {d.dense(master)};
  g.stores = {d.dense(master)};
  g.stages = {{.body = {load(0), head(), apply(Primitive::sub, {0, 1})}, .stores = {{2, 0}}}};
  d.plan.kernels.push_back(g);
  d.plan.kernels.push_back(channel_sums(d, dy, y_shape));
  return d;
}

/// A linear layer's weights updated by momentum with the gradient dy^T x, and the gradient of its bias; dy [n, k],
/// x [n, c].
inline Draft matrix_update(const std::string& name, std::int64_t n, std::int64_t c, std::int64_t k, Dtype dtype,
                           bool with_bias = false, Math math = Math::ieee) {
  Draft d(name);
  const int dy = d.slot(dtype, {n, k}), x = d.slot(dtype, {n, c});
  const Shape shape{k, c};
  const std::array state{d.output(Dtype::f32, shape), d.output(Dtype::f32, shape), d.output(dtype, shape)};
  Kernel kernel{.label = "matmul", .domain = shape};
  kernel.head = Head{Matmul{math}, {{dy, 0, {k, n}, {1, k}}, {x, 0, {n, c}, {c, 1}}}, Dtype::f32};
  update_by(d, kernel, state);
  d.plan.kernels = {kernel};
  if (with_bias) d.plan.kernels.push_back(channel_sums(d, dy, {n, k}));
  return d;
}

/// relu(a b + bias of a row), as a large linear layer computes it; a [m, k], b [k, n] in rows or in columns.
inline Draft matrix_product(const std::string& name, std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype,
                            bool rows_of_b, Math math = Math::ieee) {
  Draft d(name);
  const int a = d.slot(dtype, {m, k}), b = d.slot(dtype, rows_of_b ? Shape{k, n} : Shape{n, k}),
            bias = d.slot(Dtype::f32, {m, 1});
  Kernel kernel{.label = "matmul", .domain = {m, n}};
  const Strides of_b = rows_of_b ? Strides{n, 1} : Strides{1, k};
  kernel.head = Head{Matmul{math}, {{a, 0, {m, k}, {k, 1}}, {b, 0, {k, n}, of_b}}, dtype};
  kernel.loads = {{.slot = bias, .strides = {1, 0}}};
  kernel.stores = {d.dense(d.output(dtype, kernel.domain)), d.dense(d.output(Dtype::f32, kernel.domain))};
  kernel.stages = {{.body = {head(), load(0), apply(Primitive::add, {0, 1}), number(0), apply(Primitive::max, {2, 3})},
                    .stores = {{4, 0}, {2, 1}}}};
  d.plan.kernels = {kernel};
  return d;
}

/// a b / 8 + bias of a row, of 8-bit floats, or a b of bytes; a [m, k] and b [k, n] with their terms inside, or b in
/// rows.
inline Draft stored_product(const std::string& name, std::int64_t m, std::int64_t n, std::int64_t k, Dtype of_a,
                            Dtype of_b, bool rows_of_b, Math math = Math::fp32) {
  Draft d(name);
  const bool floats = is_floating(of_a);
  const int a = d.slot(of_a, {m, k}), b = d.slot(of_b, rows_of_b ? Shape{k, n} : Shape{n, k}),
            bias = d.slot(Dtype::f32, {m, 1});
  Kernel kernel{.label = "matmul", .domain = {m, n}};
  const Strides strides_of_b = rows_of_b ? Strides{n, 1} : Strides{1, k};
  kernel.head =
      Head{Matmul{math}, {{a, 0, {m, k}, {k, 1}}, {b, 0, {k, n}, strides_of_b}}, floats ? Dtype::f32 : Dtype::i32};
  kernel.stores = {d.dense(d.output(floats ? Dtype::f16 : Dtype::i32, kernel.domain)),
                   d.dense(d.output(Dtype::f32, kernel.domain))};
  if (floats) {
    kernel.loads = {{.slot = bias, .strides = {1, 0}}};
    kernel.stages = {
        {.body = {head(), number(0.125), apply(Primitive::mul, {0, 1}), load(0), apply(Primitive::add, {2, 3})},
         .stores = {{4, 0}, {4, 1}}}};
  } else {
    kernel.stages = {{.body = {head(Dtype::i32), apply(Primitive::cast, {0})}, .stores = {{0, 0}, {1, 1}}}};
  }
  d.plan.kernels = {kernel};
  return d;
}

/// A layer to test, and what lowering makes of it.
struct Case {
  std::string name;
  int kernels;  ///< that run code written for 16-bit layers after lowering
  std::function<Draft()> draft;
  int fewer = 0;  ///< groups after lowering than kernels before
  Math math = Math::ieee;
  bool all_bits = false;  ///< f32 operands have all their bits, not a few
};

}  // namespace nixie::hopper_plans
