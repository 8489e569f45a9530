// Lists the sums over windows that compute a convolution.
#include "nixie/backends/cuda/rewrite/unfold/layers.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/phases.h"
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

// For an axis of stride 1: images and results change places, taps turn.
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

// Leaves out pixels that no tap reads: where stride and dilation
// have a common divisor, those are all but every so many-th.
void skip_unread(Layer& layer) {
  for (int i : {0, 1}) {
    WindowAxis& axis = layer.sum.axes[at(i)];
    const std::int64_t step = std::gcd(axis.stride, axis.dilation), first = round_up(axis.pad, step) - axis.pad;
    if (step == 1 || axis.taps == 1 || first >= axis.images) continue;
    axis.images = ceil_div(axis.images - first, step), axis.pad = (axis.pad + first) / step;
    axis.stride /= step, axis.dilation /= step;
    std::int64_t& stride = layer.images.strides[at(i + 2)];
    layer.images.offset += first * stride, stride *= step;
    layer.images.shape = layer.images.shape.with(i + 2, axis.images);
  }
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

// An axis of an input gradient as one of a forward convolution of dy whose window covers the taps of all phases, and
// of each phase which of them are its own.
struct PhasedAxis {
  struct Taps {
    std::int64_t low = 0, high = 0;         // in the window
    std::int64_t last_tap = 0, before = 0;  // the layer's tap at high - 1, and the step to the one before it
  };
  WindowAxis axis = {};
  std::vector<Taps> phases = {};
};

std::optional<PhasedAxis> phased(const WindowAxis& layer) {
  const std::vector<Phase> phases = phases_of(layer.images, layer.taps, static_cast<int>(layer.stride),
                                              static_cast<int>(layer.pad), static_cast<int>(layer.dilation));
  if (std::ssize(phases) != layer.stride) return {};
  // Tap j of a phase takes the result at its position + pad - j * dilation.
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = -low, dilation = 0, between = 0;
  for (const Phase& phase : phases) {
    if (phase.taps == 0) continue;
    low = std::min<std::int64_t>(low, phase.pad - (phase.taps - 1) * phase.dilation);
    high = std::max<std::int64_t>(high, phase.pad);
    if (phase.taps > 1) dilation = phase.dilation;
  }
  for (const Phase& phase : phases)
    if (phase.taps > 0) between = std::gcd(between, phase.pad - low);
  if (dilation == 0) dilation = std::max<std::int64_t>(between, 1);
  if (between % dilation != 0) return {};  // taps of one phase are between those of another
  PhasedAxis with{.axis = {.images = layer.results,
                           .taps = (high - low) / dilation + 1,
                           .results = phases[0].pixels,
                           .pad = -low,
                           .dilation = dilation}};
  for (const Phase& phase : phases) {
    const std::int64_t end = phase.taps > 0 ? (phase.pad - low) / dilation + 1 : 0;
    with.phases.push_back({end - phase.taps, end, phase.first_tap, phase.tap_step});
  }
  return with;
}

// Makes a layer the forward convolution of dy by the filters w, [channels, filters, taps], of all phases; of stride 1
// there is one along an axis. False where there is none, or where they are very many.
bool by_phases(Layer& layer, const ConvProblem& conv, const Operand& w) {
  constexpr std::int64_t kMostPhases = 64;
  std::array<std::optional<PhasedAxis>, 2> axes;
  for (std::size_t i : {0u, 1u}) {
    axes[i] = phased(axis_of(conv, i));
    if (!axes[i]) return false;
    layer.sum.axes[i] = axes[i]->axis, layer.sum.phases[i] = std::ssize(axes[i]->phases);
    layer.sum.unequal_phases[i] = (i ? conv.width : conv.height) % conv.stride[i] != 0;
  }
  if (layer.sum.phases[0] * layer.sum.phases[1] > kMostPhases) return false;
  for (const PhasedAxis::Taps& down : axes[0]->phases)
    for (const PhasedAxis::Taps& across : axes[1]->phases) {
      FilterPart part{.filter = std::ssize(layer.parts) * layer.part_shape[0], .load = access_of(w)};
      for (const auto& [taps, i] : {std::pair(down, 0), std::pair(across, 1)}) {
        std::int64_t& step = part.load.strides[at(i + 2)];
        part.taps[at(i)] = {taps.low, taps.high};
        part.load.offset += (taps.last_tap + (taps.high - 1) * taps.before) * step;
        step *= -taps.before;
      }
      layer.parts.push_back(std::move(part));
    }
  return true;
}

}  // namespace

void turn(Operand& operand, int axis) {
  operand.offset += (operand.shape[axis] - 1) * operand.strides[at(axis)];
  operand.strides[at(axis)] *= -1;
}

std::vector<Layer> layers_of(const Kernel& kernel, const ConvProblem& conv) {
  const Operand &first = kernel.head->operands[0], &second = kernel.head->operands[1];
  Layer layer{.sum = {.gradient = conv.role == ConvRole::filter_grad,
                      .dtype = conv.planes > 0 ? Dtype::f32 : conv.dtype,
                      .planes = conv.planes,
                      .count = conv.images,
                      .groups = conv.groups}};
  layer.sum.axes = {axis_of(conv, 0), axis_of(conv, 1)};
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
  if (conv.role == ConvRole::filter_grad) {
    layer.images = second, layer.results = first;
    if (conv.stride != std::array{1, 1}) skip_unread(layer);
    add(layer, channels, filters);
    if (conv.stride != std::array{1, 1}) return layers;
    std::swap(layer.images, layer.results);
    for (WindowAxis& axis : layer.sum.axes) axis = turned(axis);
    layer.sum.turned = true;
    add(layer, filters, channels);
    return layers;
  }
  layer.images = first, layer.group_step = filters * second.strides[0];
  Operand w = second;
  if (conv.role == ConvRole::output) {
    layer.part_shape = {filters, channels};
    layer.parts = {{.load = access_of(w), .taps = {{{0, conv.r}, {0, conv.s}}}}};
    skip_unread(layer);
    add(layer, channels, filters);
  } else {
    std::swap(w.strides[0], w.strides[1]);
    layer.part_shape = {channels, filters};
    if (by_phases(layer, conv, w)) add(layer, filters, channels * layer.sum.phases[0] * layer.sum.phases[1]);
  }
  return layers;
}

}  // namespace nixie::cuda
