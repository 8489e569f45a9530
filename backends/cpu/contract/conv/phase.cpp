// Geometry of convolutions: sizes on three axes, frames, and the phases of the output and of the input's gradient.
#include "nixie/backends/cpu/contract/conv/phase.h"

namespace nixie::cpu {
namespace {

Sizes three(const std::vector<int>& values, std::int64_t absent) {
  Sizes sizes{absent, absent, absent};
  std::copy(values.begin(), values.end(), sizes.end() - static_cast<std::ptrdiff_t>(values.size()));
  return sizes;
}

Sizes spatial_sizes(const Shape& shape) {
  Sizes sizes{1, 1, 1};
  std::copy(shape.begin() + 2, shape.end(), sizes.end() - (shape.rank() - 2));
  return sizes;
}

/// One axis of an input_grad phase: pixel j is at first + j * stride and reads dy at base + j - taps[i].shift.
struct PhaseAxis {
  PhaseAxis(std::int64_t in, std::int64_t window, std::int64_t stride, std::int64_t pad, std::int64_t dilation,
            std::int64_t remainder) {
    first = ((remainder - pad) % stride + stride) % stride;
    count = first < in ? (in - 1 - first) / stride + 1 : 0;
    base = (first + pad - remainder) / stride;
    for (std::int64_t i = 0; i < window; ++i)
      if (i * dilation % stride == remainder) taps.emplace_back(i, (i * dilation - remainder) / stride);
  }
  std::int64_t widest() const { return taps.back().second; }
  std::int64_t narrowest() const { return taps.front().second; }
  std::int64_t first, count, base;
  std::vector<std::pair<std::int64_t, std::int64_t>> taps;  // window position, shift: both ascending
};

/// The phase of input_grad whose pixels, padding added, leave `remainder` modulo the stride.
Phase input_grad_phase(const ConvShape& s, const Sizes& weight_strides, const Sizes& remainder) {
  Phase phase;
  phase.pixel_step = {1, 1, 1};
  phase.step = s.stride;
  std::vector<PhaseAxis> axes;
  bool empty = false;
  for (std::size_t a = 0; a < 3; ++a) {
    axes.emplace_back(s.in[a], s.window[a], s.stride[a], s.pad[a], s.dilation[a], remainder[a]);
    const PhaseAxis& axis = axes.back();
    phase.first[a] = axis.first;
    phase.count[a] = axis.count;
    empty |= axis.taps.empty();
  }
  if (empty || phase.pixels() == 0) return phase;
  for (std::size_t a = 0; a < 3; ++a) {
    phase.frame.size[a] = axes[a].count + axes[a].widest() - axes[a].narrowest();
    phase.frame.pad[a] = axes[a].widest() - axes[a].base;
  }
  for (const auto& [t, t_shift] : axes[0].taps)
    for (const auto& [r, r_shift] : axes[1].taps)
      for (const auto& [c, c_shift] : axes[2].taps)
        phase.taps.push_back(
            {phase.frame.at(axes[0].widest() - t_shift, axes[1].widest() - r_shift, axes[2].widest() - c_shift),
             t * weight_strides[0] + r * weight_strides[1] + c * weight_strides[2]});
  return phase;
}

}  // namespace

ConvShape::ConvShape(const Conv& conv, const Shape& x, const Shape& w, const Shape& y)
    : batch(x[0]),
      groups(conv.groups),
      channels(w[1]),
      filters(w[0] / conv.groups),
      in(spatial_sizes(x)),
      out(spatial_sizes(y)),
      window(spatial_sizes(w)),
      stride(three(conv.stride, 1)),
      pad(three(conv.pad, 0)),
      dilation(three(conv.dilation, 1)) {}

FrameLayout frame_of_windows(const ConvShape& shape) {
  FrameLayout layout;
  layout.pad = shape.pad;
  layout.column_step = shape.stride[2];
  for (std::size_t a = 0; a < 3; ++a)
    layout.size[a] = (shape.out[a] - 1) * shape.stride[a] + (shape.window[a] - 1) * shape.dilation[a] + 1;
  return layout;
}

Phase output_phase(const ConvShape& s, const Sizes& weight_strides) {
  Phase phase{frame_of_windows(s), {}, s.out, {s.stride[0], s.stride[1], 1}, {0, 0, 0}, {1, 1, 1}};
  for_each_in(s.window, [&](std::int64_t t, std::int64_t r, std::int64_t c) {
    phase.taps.push_back({phase.frame.at(t * s.dilation[0], r * s.dilation[1], c * s.dilation[2]),
                          t * weight_strides[0] + r * weight_strides[1] + c * weight_strides[2]});
  });
  return phase;
}

void for_each_phase(bool forward, const ConvShape& s, const Sizes& weight_strides,
                    const std::function<void(Phase)>& take) {
  if (forward) return take(output_phase(s, weight_strides));
  // By the first pixel of a phase: a stride beyond the image has phases without any.
  Sizes first{};
  for (std::size_t a = 0; a < 3; ++a) first[a] = std::min(s.stride[a], s.in[a]);
  for_each_in(first, [&](std::int64_t d, std::int64_t h, std::int64_t w) {
    take(input_grad_phase(s, weight_strides,
                          {(d + s.pad[0]) % s.stride[0], (h + s.pad[1]) % s.stride[1], (w + s.pad[2]) % s.stride[2]}));
  });
}

}  // namespace nixie::cpu
