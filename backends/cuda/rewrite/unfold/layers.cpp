// Lists the sums over windows that a convolution is.
#include "nixie/backends/cuda/rewrite/unfold/layers.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

WindowAxis axis_of(const ConvProblem& conv, std::size_t i) {
  return {.images = i ? conv.width : conv.height,
          .taps = i ? conv.s : conv.r,
          .results = i ? conv.q : conv.p,
          .stride = conv.stride[i],
          .pad = conv.pad[i],
          .dilation = conv.dilation[i]};
}

// Of an axis of stride 1: images and results change places, taps turn.
WindowAxis turned(const WindowAxis& axis) {
  return {.images = axis.results,
          .taps = axis.taps,
          .results = axis.images,
          .stride = 1,
          .pad = (axis.taps - 1) * axis.dilation - axis.pad,
          .dilation = axis.dilation};
}

// Cuts off images before the first that any result takes; false where none is left.
bool cut_negative_padding(Layer& layer) {
  for (int i : {0, 1}) {
    WindowAxis& axis = layer.sum.axes[at(i)];
    if (axis.pad >= 0) continue;
    layer.images.offset -= axis.pad * layer.images.strides[at(i + 2)];
    axis.images += axis.pad, axis.pad = 0;
    if (axis.images <= 0) return false;
    layer.images.shape = layer.images.shape.with(i + 2, axis.images);
  }
  return true;
}

// How many groups may be one of the tensor cores' convolution: they want 16 channels and filters at least; a multiple
// of 8 groups gives steps of 16 bytes, a divisor whole blocks.
std::vector<std::int64_t> groups_together(std::int64_t groups, std::int64_t narrow, std::int64_t wide) {
  constexpr std::int64_t kLeast = 16, kWidest = 512, kMost = 128;
  std::vector<std::int64_t> all;
  for (std::int64_t together = 1; together <= std::min(groups, kMost); ++together) {
    const bool whole = together == groups, steps = (together & (together - 1)) == 0 || together % 8 == 0;
    if (whole || ((groups % together == 0 || steps) && together * narrow >= kLeast &&
                  (together == 1 || together * wide <= kWidest)))
      all.push_back(together);
  }
  return all;
}

}  // namespace

void turn(Operand& operand, int axis) {
  operand.offset += (operand.shape[axis] - 1) * operand.strides[at(axis)];
  operand.strides[at(axis)] *= -1;
}

std::vector<Layer> layers_of(const Kernel& kernel, const ConvProblem& conv) {
  const Operand &first = kernel.head->operands[0], &second = kernel.head->operands[1];
  Layer layer{.sum = {.gradient = conv.role == ConvRole::filter_grad,
                      .dtype = conv.dtype,
                      .count = conv.images,
                      .groups = conv.groups}};
  layer.sum.axes = {axis_of(conv, 0), axis_of(conv, 1)};
  const bool stride_1 = conv.stride == std::array{1, 1};
  const std::int64_t filters = conv.filters / conv.groups, channels = conv.channels / conv.groups;
  std::vector<Layer> layers;
  const auto add = [&](Layer one, std::int64_t of_images, std::int64_t of_results) {
    if (!cut_negative_padding(one)) return;
    for (const std::int64_t together :
         groups_together(conv.groups, std::min(channels, filters), std::max(channels, filters))) {
      one.sum.together = together, one.sum.channels = together * of_images, one.sum.filters = together * of_results;
      layers.push_back(one);
    }
  };
  Layer turned_layer = layer;
  for (WindowAxis& axis : turned_layer.sum.axes) axis = turned(axis);
  if (conv.role == ConvRole::filter_grad) {
    layer.images = second, layer.other = first;
    add(layer, channels, filters);
    turned_layer.images = first, turned_layer.other = second, turned_layer.sum.turned = true;
    if (stride_1) add(turned_layer, filters, channels);
    return layers;
  }
  Layer& chosen = conv.role == ConvRole::output ? layer : turned_layer;
  chosen.images = first, chosen.other = second, chosen.group_step = filters * second.strides[0];
  chosen.other.shape = second.shape.with(0, filters);
  if (conv.role == ConvRole::output) {
    add(layer, channels, filters);
  } else if (stride_1) {
    Operand& w = turned_layer.other;
    w.shape = {w.shape[1], w.shape[0], w.shape[2], w.shape[3]};
    std::swap(w.strides[0], w.strides[1]);
    for (int axis : {2, 3}) turn(w, axis);
    add(turned_layer, filters, channels);
  }
  return layers;
}

}  // namespace nixie::cuda
