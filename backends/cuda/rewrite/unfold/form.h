// Forms of a convolution: transformations of its window's axes and its channels for kernels that want multiples of
// several channels, and enough of them.
#pragma once

#include <array>
#include <vector>

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// An axis of the images: result p reads pixels p * stride + tap * dilation - pad.
struct WindowAxis {
  std::int64_t images = 0, taps = 0, results = 0, stride = 1, pad = 0, dilation = 1;
};

/// A forward convolution of images [count, channels, ., .] to results [count, filters, ., .], or its filter gradient.
/// An input gradient of stride 1 is a forward convolution of dy. `together` groups of a grouped layer form one group, a
/// block, of the convolution that is computed: filters have zeros for channels of the block's other groups, and
/// gradients discard these elements. The last block may have fewer groups. A strided input gradient is computed as one
/// of stride 1 that has filters for each phase of the input; a kernel interleaves the phases.
struct WindowSum {
  bool gradient = false;
  bool turned = false;       ///< gradient: images and gradients are swapped, and so are the result's axes
  Dtype dtype = Dtype::f16;  ///< of images and filters in memory
  int planes = 0;            ///< of f32 ones: the fp16 planes that operands are split into afterwards
  std::int64_t count = 0, channels = 0, filters = 0;  ///< images; channels and filters per block
  std::int64_t groups = 1, together = 1;
  std::array<std::int64_t, 2> phases = {1, 1};  ///< per axis; a group's filters are those of one phase times these
  std::array<bool, 2> unequal_phases = {};      ///< per axis: some phases have one pixel more than others
  std::array<WindowAxis, 2> axes = {};

  /// Whether f32 multiply-adds compute it, not tensor cores.
  bool by_multiply_adds() const { return dtype == Dtype::f32 && planes == 0; }
  /// Numbers in 16 bytes, as they are multiplied: channels and filters are multiples of it.
  std::int64_t piece() const { return by_multiply_adds() ? 4 : 8; }
  std::int64_t blocks() const { return (groups + together - 1) / together; }
  /// Those of all groups.
  std::int64_t all_channels() const { return channels / together * groups; }
  std::int64_t all_filters() const { return filters / together * groups; }
};

/// The transformation of an axis of the window.
enum class AxisForm : std::uint8_t {
  kept,    ///< stays an axis of the window
  copied,  ///< im2col: its taps are channels of images, which are copied once for each tap
  viewed,  ///< im2col in place: rows of neighbouring pixels, read as channels, overlap in memory
  folded,  ///< its taps are filters; a kernel sums the shifted results
};

struct Form {
  WindowSum sum = {};
  /// Whether an axis is blocked (space-to-depth): images are copied with their padding, `stride` neighbours as channels
  /// of one pixel, so that the window has taps / stride taps, rounded up, and moves by 1. What follows then describes
  /// the blocked axis.
  std::array<bool, 2> in_blocks = {};
  std::array<AxisForm, 2> axis_forms = {AxisForm::kept, AxisForm::kept};
  /// The sizes in which a block's filters are stored: channels for each copied tap and pixel of a blocked axis, filters
  /// for each folded tap, and taps; padded with zeros.
  std::int64_t channels = 0, filters = 0;
  std::array<std::int64_t, 2> taps = {};
  double seconds = 0;       ///< estimated, including the kernels that copy and sum
  double copy_seconds = 0;  ///< the part of it that copies images

  bool has(AxisForm way) const { return axis_forms[0] == way || axis_forms[1] == way; }
  /// An axis of the sum, after blocking.
  WindowAxis axis(std::size_t i) const;
  /// The number of neighbours along an axis that are channels of one pixel.
  std::int64_t block_pixels(std::size_t i) const { return in_blocks[i] ? sum.axes[i].stride : 1; }
  std::int64_t block_pixels() const { return block_pixels(0) * block_pixels(1); }
  std::int64_t taps_of(AxisForm way) const;  ///< product of the taps of the axes with this form
  /// A block's channels in a pixel of the copied images, and in a pixel of the convolution's images.
  std::int64_t pixel_channels() const { return channels * block_pixels() * taps_of(AxisForm::copied); }
  std::int64_t row_channels() const { return pixel_channels() * taps_of(AxisForm::viewed); }
  /// Pixels along an axis of the copied images.
  std::int64_t extent(int axis) const;
  /// Whether channels-last images are read in place: no copy, no padding.
  bool reads_images() const;
  /// Whether filters have the layer's own sizes except for zero channels and filters at the end.
  bool keeps_window() const {
    return block_pixels() == 1 && axis_forms[0] == AxisForm::kept && axis_forms[1] == AxisForm::kept;
  }
  /// Whether there are unused channels between the results of blocks, which a kernel skips.
  bool spreads_results() const { return sum.blocks() > 1 && filters != sum.filters; }
  /// Whether a further kernel gathers the results into the layer's layout.
  bool gathers_results() const { return spreads_results() || sum.phases != std::array<std::int64_t, 2>{1, 1}; }
  /// Whether a filter gradient's own kernel stores it; else a further kernel gathers its elements.
  bool stores_gradient() const { return keeps_window() && !sum.turned && sum.together == 1 && !spreads_results(); }
  /// Whether filters of equal blocks of several groups are copied as they are, by one kernel that writes the zeros
  /// between them, too.
  bool fills_blocks() const;
  /// The convolution that is computed.
  ConvProblem conv() const;

  /// The copied images [count, pixel_channels of all blocks, extents] and their strides: neighbours along a viewed axis
  /// are contiguous.
  Shape images() const { return {sum.count, sum.blocks() * pixel_channels(), extent(0), extent(1)}; }
  Strides image_strides() const;
  /// The convolution's filters, channels-last; and a block's filters in the same memory, as [filters, channels, taps].
  Shape filter_shape() const;
  Shape filter_extents() const { return {filters, channels, taps[0], taps[1]}; }
  Strides filter_strides() const;
};

/// The number of an axis' taps that read pixel number `pixel` of a block of `block` pixels.
inline std::int64_t taps_of_pixel(std::int64_t taps, std::int64_t block, std::int64_t pixel) {
  return taps > pixel ? (taps - pixel + block - 1) / block : 0;
}

/// Calls act(pixel, first channel) for each pixel of a block.
template <class Act>
void for_block_pixels(const Form& form, const Act& act) {
  for (std::int64_t row = 0; row < form.block_pixels(0); ++row)
    for (std::int64_t column = 0; column < form.block_pixels(1); ++column)
      act(std::array{row, column}, (row * form.block_pixels(1) + column) * form.channels);
}

/// The forms that Hopper's kernels can compute, sorted by estimated time.
std::vector<Form> forms_of(const WindowSum& sum, const Chip& chip);

}  // namespace nixie::cuda
