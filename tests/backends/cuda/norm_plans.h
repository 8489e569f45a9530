// Plans of layers with reductions of their results behind them, most of these batch normalisation's, forward and
// backward, for the tests of reductions that move to where the values are made.
#pragma once

#include "nixie/tests/backends/cuda/hopper_plans.h"

namespace nixie::hopper_plans {

/// Backward: of what a gate let through; of what a gate lets through that the kernel finds from x; of two layers whose
/// results were added up, so that both have the same gradient. Beside images: of the sum of these and a layer's result,
/// each normalised.
enum class Norm { forward, beside_images, two_layers, backward, backward_and_gate, backward_of_two };

inline bool is_backward(Norm what) { return what >= Norm::backward; }

/// x -> (x - mean) * rsqrt(variance + 1e-3) over all axes but the channels of slots `xs`, where there are two times a
/// scale and plus a shift for each channel, and added up, into an output; mean and variance of each are outputs, too.
inline Kernel normalisation(Draft& d, const std::vector<int>& xs, const Shape& shape) {
  Kernel k{.label = "normalise", .domain = shape, .reduced = {0, 2, 3}};
  const Shape kept = kept_shape(k);
  const double count = static_cast<double>(shape.size() / shape[1]);
  Stage moments, scale{.full = false}, stream;
  std::vector<Access> later;
  for (int i = 0; i < static_cast<int>(xs.size()); ++i) {
    const int first = 3 * i, reg = static_cast<int>(scale.body.size());
    k.loads.push_back(d.dense(xs[static_cast<std::size_t>(i)]));
    k.carried.insert(k.carried.end(), {Dtype::f32, Dtype::f32, Dtype::f32});
    moments.body.push_back(load(i));
    moments.reductions.push_back({ReduceKind::mean, i, first});
    moments.reductions.push_back({ReduceKind::m2, i, first + 1});
    k.stores.push_back(d.dense(d.output(Dtype::f32, kept)));
    k.stores.push_back(d.dense(d.output(Dtype::f32, kept)));
    scale.body.insert(scale.body.end(),
                      {carried(first), carried(first + 1), number(1 / count), apply(Primitive::mul, {reg + 1, reg + 2}),
                       number(1e-3), apply(Primitive::add, {reg + 3, reg + 4}), apply(Primitive::rsqrt, {reg + 5})});
    scale.stores.push_back({reg, 2 * i});
    scale.stores.push_back({reg + 3, 2 * i + 1});
    scale.carries.push_back({reg + 6, first + 2});
    const int at = static_cast<int>(stream.body.size());
    stream.body.insert(stream.body.end(), {load(i), carried(first), apply(Primitive::sub, {at, at + 1}),
                                           carried(first + 2), apply(Primitive::mul, {at + 2, at + 3})});
    if (xs.size() == 1) continue;
    later.insert(later.end(), {d.dense(d.slot(Dtype::f32, kept)), d.dense(d.slot(Dtype::f32, kept))});
    stream.body.insert(stream.body.end(), {load(2 + 2 * i), apply(Primitive::mul, {at + 4, at + 5}), load(3 + 2 * i),
                                           apply(Primitive::add, {at + 6, at + 7})});
    if (i > 0) stream.body.push_back(apply(Primitive::add, {at - 1, at + 8}));
  }
  k.loads.insert(k.loads.end(), later.begin(), later.end());
  const Dtype dtype = d.plan.slots[static_cast<std::size_t>(xs[0])].dtype;
  stream.stores = {{static_cast<int>(stream.body.size()) - 1, static_cast<int>(k.stores.size())}};
  k.stores.push_back(d.dense(image_output(d, dtype, shape)));
  k.stages = {moments, scale, stream};
  return k;
}

/// The sums of g and of g * (x - mean) for every channel, and (g - their share) * 1/2 into an output. g is dy, or dy
/// where (x - mean) * scale + shift is above zero; x and mean are those of one layer or two.
inline Kernel normalisation_grad(Draft& d, int dy, Dtype dtype, const Shape& shape, Norm what) {
  Kernel k{.label = "normalise grad", .domain = shape, .reduced = {0, 2, 3}};
  const double count = static_cast<double>(shape.size() / shape[1]);
  const Shape kept = kept_shape(k);
  const int layers = what == Norm::backward_of_two ? 2 : 1;
  k.loads = {d.dense(dy)};
  Stage sums{.body = {load(0)}}, share{.full = false}, stream;
  int g = 0;
  for (int i = 0; i < layers; ++i) {
    k.loads.push_back(d.dense(image(d, dtype, shape)));
    k.loads.push_back(d.dense(d.slot(Dtype::f32, kept)));
    const int at = static_cast<int>(sums.body.size());
    sums.body.insert(sums.body.end(), {load(1 + 2 * i), load(2 + 2 * i), apply(Primitive::sub, {at, at + 1})});
    if (what == Norm::backward_and_gate) {
      k.loads.push_back(d.dense(d.slot(Dtype::f32, kept)));
      k.loads.push_back(d.dense(d.slot(Dtype::f32, kept)));
      sums.body.insert(sums.body.end(), {load(3), load(4), apply(Primitive::mul, {at + 2, at + 3}),
                                         apply(Primitive::add, {at + 5, at + 4}), number(0),
                                         apply(Primitive::less, {at + 7, at + 6}), apply(Primitive::mul, {0, at + 8})});
      g = at + 9;
    }
    stream.body = sums.body;
    sums.body.push_back(apply(Primitive::mul, {g, at + 2}));
    sums.reductions.push_back({ReduceKind::sum, static_cast<int>(sums.body.size()) - 1, i + 1});
  }
  sums.reductions.insert(sums.reductions.begin(), {ReduceKind::sum, g, 0});
  share.body = {carried(0), number(1 / count), apply(Primitive::mul, {0, 1})};
  share.carries = {{2, layers + 1}};
  k.carried.assign(static_cast<std::size_t>(layers) + 2, Dtype::f32);
  for (int i = 0; i <= layers; ++i) {
    if (i > 0) share.body.push_back(carried(i));
    share.stores.push_back({i == 0 ? 0 : i + 2, i});
    k.stores.push_back(d.dense(d.output(Dtype::f32, kept)));
  }
  const int at = static_cast<int>(stream.body.size());
  stream.body.insert(stream.body.end(), {carried(layers + 1), apply(Primitive::sub, {g, at}), number(0.5),
                                         apply(Primitive::mul, {at + 1, at + 2})});
  stream.stores = {{at + 3, layers + 1}};
  k.stores.push_back(d.dense(image_output(d, dtype, shape)));
  k.stages = {sums, share, stream};
  return k;
}

/// A convolution, or two of the same images added up after their normalisation, or the input gradient through a gate,
/// whose result is read by such a kernel alone.
inline Draft with_norm(const std::string& name, const Layer& layer, Norm what) {
  Draft d = is_backward(what) ? input_grad(name, layer, what != Norm::backward_and_gate)
                              : forward(name, layer, Forward::plain);
  const Shape shape = is_backward(what) ? layer.x() : layer.y();
  std::vector<int> made;
  if (what == Norm::two_layers) {
    d.plan.kernels.push_back(d.plan.kernels[0]);
    const int w = image(d, layer.dtype, layer.filter());
    d.plan.kernels[1].head->operands[1] = operand(d, w);
  }
  d.outputs.clear();  // the result stays in the arena
  for (Kernel& kernel : d.plan.kernels) {
    made.push_back(internal(d, layer.dtype, shape, shape.channels_last()));
    kernel.stores[0].slot = made.back();
  }
  if (what == Norm::beside_images) made.push_back(image(d, layer.dtype, shape));
  d.plan.kernels.push_back(is_backward(what) ? normalisation_grad(d, made[0], layer.dtype, shape, what)
                                             : normalisation(d, made, shape));
  return d;
}

/// What all magnitudes of a result are reduced to: the sum and the maximum, or mean and m2.
enum class Figures { sum, moments };

/// A convolution whose result is read by such a kernel alone.
inline Draft with_figures(const std::string& name, const Layer& layer, Figures what) {
  Draft d = forward(name, layer, Forward::plain);
  d.outputs.clear();  // the result stays in the arena
  const int y = internal(d, layer.dtype, layer.y(), layer.y().channels_last());
  d.plan.kernels[0].stores[0].slot = y;
  Kernel k{.label = "figures", .domain = layer.y(), .reduced = {0, 1, 2, 3}};
  k.loads = {d.dense(y)};
  k.carried = {Dtype::f32, Dtype::f32};
  for (int i = 0; i < 2; ++i) k.stores.push_back(d.dense(d.output(Dtype::f32, kept_shape(k))));
  k.stages = {{.body = {load(0), apply(Primitive::abs, {0})}},
              {.full = false, .body = {carried(0), carried(1)}, .stores = {{0, 0}, {1, 1}}}};
  if (what == Figures::sum)
    k.stages[0].reductions = {{ReduceKind::sum, 1, 0}, {ReduceKind::max, 1, 1}};
  else
    k.stages[0].reductions = {{ReduceKind::mean, 1, 0}, {ReduceKind::m2, 1, 1}};
  d.plan.kernels.push_back(k);
  return d;
}

}  // namespace nixie::hopper_plans
