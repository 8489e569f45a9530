// Copies planes and filters so that taps along the depth are channels, phase by phase.
#include "nixie/core/rewrites/over_taps.h"

#include <algorithm>
#include <vector>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/rewrites/fold.h"

namespace nixie {
namespace {

constexpr int kDepth = 2;  // of [N, C, D, H, W]
constexpr std::int64_t kMostTaps = 16;

// Planes that use the same taps: tap i is number first_tap + i * tap_step, and result plane p takes from it plane
// first + i * between + p * step.
struct Phase {
  std::int64_t taps = 1, first_tap = 0, tap_step = 1;
  std::int64_t first = 0, between = 0, step = 1, planes = 0;
};

const Conv& op_of(const Tensor& x) { return std::get<Conv>(x.node().op); }
const Tensor& images_of(const Tensor& x) { return x.inputs()[op_of(x).role == ConvRole::filter_grad ? 1 : 0]; }

// One phase, or those of an input gradient: planes d, d + stride, ... for each d below the stride.
std::vector<Phase> phases_of(const Tensor& x) {
  const Conv& conv = op_of(x);
  const bool gradient = conv.role == ConvRole::filter_grad;
  const std::int64_t window = gradient ? x.shape()[kDepth] : x.inputs()[1].shape()[kDepth], stride = conv.stride[0],
                     pad = conv.pad[0], dilation = conv.dilation[0],
                     planes = gradient ? x.inputs()[0].shape()[kDepth] : x.shape()[kDepth];
  if (conv.role != ConvRole::input_grad)
    return {{.taps = window, .first = -pad, .between = dilation, .step = stride, .planes = planes}};
  std::vector<Phase> phases;
  for (std::int64_t d = 0; d < std::min(stride, planes); ++d) {
    Phase phase{.taps = 0, .planes = ceil_div(planes - d, stride)};
    for (std::int64_t tap = 0; tap < window; ++tap) {
      const std::int64_t to = d + pad - tap * dilation;
      if (to % stride != 0) continue;
      if (phase.taps == 0) phase.first_tap = tap, phase.first = to / stride;
      if (phase.taps == 1) phase.tap_step = tap - phase.first_tap, phase.between = to / stride - phase.first;
      ++phase.taps;
    }
    phases.push_back(phase);
  }
  return phases;
}

Tensor range_of(const Tensor& x, int axis, std::int64_t first, std::int64_t count, std::int64_t step = 1) {
  return slice(x, Index::along(axis, Index::range(first, first + (count - 1) * step + 1, step)));
}

// The parts along an axis; for one group with zeros at the end, so that pieces of 16 bytes can be copied.
Tensor side_by_side(std::vector<Tensor> parts, int axis, std::int64_t groups) {
  const std::int64_t size = std::ssize(parts) * parts[0].shape()[axis], zeros_after = round_up(size, 16) - size;
  if (groups == 1 && size % 8 != 0) parts.push_back(zeros(parts[0].shape().with(axis, zeros_after), parts[0].dtype()));
  return concat(parts, axis);
}

// Images [N, C, D, H, W] as planes, of groups * taps * channels of a group.
Tensor planes_of(const Tensor& x, const Phase& phase, std::int64_t groups) {
  const Shape& from = x.shape();
  const std::int64_t last = phase.first + (phase.taps - 1) * phase.between,
                     low = std::max<std::int64_t>(0, -std::min(phase.first, last)),
                     end = std::max(phase.first, last) + phase.step * (phase.planes - 1) + 1,
                     high = std::max<std::int64_t>(0, end - from[kDepth]);
  const Tensor by_group = reshape(x, {from[0], groups, from[1] / groups, from[2], from[3], from[4]}),
               padded = pad(by_group, {0, 0, 0, low, 0, 0}, {0, 0, 0, high, 0, 0});
  std::vector<Tensor> taps;
  for (std::int64_t tap = 0; tap < phase.taps; ++tap)
    taps.push_back(range_of(padded, 3, low + phase.first + tap * phase.between, phase.planes, phase.step));
  const Tensor all = side_by_side(std::move(taps), 2, groups);
  return folded(kPlanes, reshape(all, {from[0], groups * all.shape()[2], phase.planes, from[3], from[4]}));
}

// Filters [K, C, T, R, S] whose taps are channels of images: of dy, whose channels are filters, group by group.
Tensor filters_of(const Tensor& w, const Phase& phase, const Conv& conv) {
  const Shape& from = w.shape();
  std::vector<Tensor> taps;
  for (std::int64_t tap = 0; tap < phase.taps; ++tap)
    taps.push_back(reshape(range_of(w, kDepth, phase.first_tap + tap * phase.tap_step, 1),
                           {conv.groups, from[0] / conv.groups, from[1], from[3], from[4]}));
  const Tensor all = side_by_side(std::move(taps), conv.role == ConvRole::output ? 2 : 1, conv.groups);
  return reshape(all, {conv.groups * all.shape()[1], all.shape()[2], from[3], from[4]});
}

Conv planar(Conv conv) {
  for (std::vector<int>* sizes : {&conv.stride, &conv.pad, &conv.dilation}) sizes->erase(sizes->begin());
  return conv;
}

// The planes of all phases of [N, C, D, H, W], each of [N * planes, C, H, W], in order.
Tensor interleaved(const std::vector<Tensor>& phases, const Shape& shape) {
  if (phases.size() == 1) return phases[0];
  const std::int64_t most = phases[0].shape()[0] / shape[0];
  std::vector<Tensor> parts;
  for (const Tensor& phase : phases) {
    const std::int64_t planes = phase.shape()[0] / shape[0];
    const Tensor by_image = reshape(phase, {shape[0], planes, shape[1], shape[3], shape[4]});
    parts.push_back(pad(by_image, {0, 0, 0, 0, 0}, {0, most - planes, 0, 0, 0}));
  }
  const Tensor all = reshape(stack(parts, 2), {shape[0], most * std::ssize(phases), shape[1], shape[3], shape[4]});
  return reshape(range_of(all, 1, 0, shape[kDepth]), folded(kPlanes, shape));
}

// Some images of the result, or of a filter gradient's sum.
Tensor share(const Tensor& x, std::int64_t first, std::int64_t count) {
  const Conv& conv = op_of(x);
  const auto some = [&](const Tensor& y) { return count == y.shape()[0] ? y : range_of(y, 0, first, count); };
  const Tensor images = some(images_of(x));
  const std::vector<Phase> phases = phases_of(x);
  if (conv.role == ConvRole::filter_grad) {
    const Tensor planes = planes_of(images, phases[0], conv.groups);
    const Shape shape{x.shape()[0], planes.shape()[1] / conv.groups, x.shape()[3], x.shape()[4]};
    return Tensor::make(planar(conv), {folded(kPlanes, some(x.inputs()[0])), planes}, shape, x.dtype());
  }
  const Shape whole = x.shape().with(0, count);
  std::vector<Tensor> results;
  for (const Phase& phase : phases) {
    const Shape shape = folded(kPlanes, whole.with(kDepth, phase.planes));
    results.push_back(
        phase.taps == 0 ? zeros(shape, x.dtype())
                        : Tensor::make(planar(conv),
                                       {planes_of(images, phase, conv.groups), filters_of(x.inputs()[1], phase, conv)},
                                       shape, x.dtype()));
  }
  return interleaved(results, whole);
}

}  // namespace

bool can_go_over_taps(const Tensor& x) {
  const std::vector<Phase> phases = phases_of(x);
  return std::ssize(phases) <= kMostTaps &&
         std::ranges::all_of(phases, [](const Phase& phase) { return phase.taps <= kMostTaps; });
}

Tensor over_taps(const Tensor& x, std::int64_t most_bytes) {
  const Tensor& images = images_of(x);
  const std::int64_t plane = images.shape().size() / images.shape()[kDepth] * size_of(images.dtype());
  std::int64_t copied = 0;
  for (const Phase& phase : phases_of(x)) copied += plane * phase.planes * phase.taps;
  const std::int64_t count = images.shape()[0],
                     of_share = ceil_div(count, std::clamp<std::int64_t>(ceil_div(copied, most_bytes), 1, count));
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < count; first += of_share)
    parts.push_back(share(x, first, std::min(of_share, count - first)));
  if (op_of(x).role != ConvRole::filter_grad) return concat(parts, 0);
  Tensor sum = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i)
    sum = retype(sum, compute_dtype(x.dtype())) + retype(parts[i], compute_dtype(x.dtype()));
  const Shape& w = x.shape();
  const Tensor taps =
      reshape(range_of(retype(sum, x.dtype()), 1, 0, w[1] * w[kDepth]), {w[0], w[kDepth], w[1], w[3], w[4]});
  return permute(taps, {0, 2, 1, 3, 4});
}

}  // namespace nixie
