// Lists the forms of a convolution and estimates them.
#include "nixie/backends/cuda/rewrite/unfold/form.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "nixie/backends/cuda/families/conv/conv_cost.h"
#include "nixie/backends/cuda/families/conv/conv_ffma.h"
#include "nixie/backends/cuda/families/conv/conv_halo.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/conv/wgrad_patches.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kMostCopyBytes = std::int64_t{1} << 30, kMostTapsSummed = 128;

// Copies that turn axes around reach this share of memory's rate.
constexpr double kTurning = 2 / 3.0;

double size_of_images(const Form& form) { return static_cast<double>(form.images().size()); }
// Bytes of an element in memory, and as it is multiplied.
double bytes_of(const WindowSum& sum) { return static_cast<double>(size_of(sum.dtype)); }
double bytes_of_planes(const WindowSum& sum) { return sum.planes > 0 ? 2.0 * sum.planes : bytes_of(sum); }

// Threads that store or load numbers of 2 bytes one by one are bound by the sectors of 32 bytes they touch.
double clocks_of_sectors(double sectors, const Chip& chip) { return 0.636 * sectors / chip.sms; }

double copy_seconds(const Form& form, const Chip& chip) {
  const WindowSum& sum = form.sum;
  if (form.reads_images()) return sum.gradient && form.filters != sum.filters ? Chip::kLaunch : 0;
  const double read = static_cast<double>(sum.count * sum.all_channels() * sum.axes[0].images * sum.axes[1].images);
  const double bytes = bytes_of(sum) * (read + size_of_images(form));
  const std::int64_t pieces = form.taps_of(AxisForm::copied) > 1 ? ceil_div(form.channels, 16) : 0;
  const double sectors = size_of_images(form) / static_cast<double>(form.channels) * static_cast<double>(pieces);
  return chip.seconds({.bytes = bytes / kTurning, .clocks = clocks_of_sectors(sectors, chip), .launches = 1});
}

// The copy engine reads a box of channels of a pixel in lines of 128 bytes of L2: few channels, or ones that begin
// anywhere as those of viewed rows do, take as long as whole lines.
double bytes_of_lines(const Form& form, const ConvProblem& conv, const Tile& tile) {
  constexpr std::int64_t kLine = 128;
  const bool viewed_down = form.axis_forms[0] == AxisForm::viewed;
  const std::int64_t channels = conv.channels / conv.groups, filters = conv.filters / conv.groups,
                     box = 2 * (form.sum.gradient ? gradient_slice(conv) : forward_slice(conv)),
                     step = 2 * form.sum.blocks() * form.pixel_channels() *
                            (form.has(AxisForm::viewed) ? form.axis(viewed_down ? 0 : 1).stride : 1),
                     aligned = std::min(std::gcd(step, kLine), box);
  const double lines = 1 + static_cast<double>(box - aligned) / kLine;
  const std::int64_t times = conv.groups * ceil_div(filters, form.sum.gradient ? tile.rows() : tile.n),
                     boxes = conv.r * conv.s * ceil_div(2 * channels, box) * times;
  const double pixels = static_cast<double>(form.sum.count * conv.p * conv.q);
  return std::max(form.sum.planes, 1) * pixels * static_cast<double>(boxes) * lines * kLine;
}

// The kernel's tiles, or patches.
Work product_work(const Form& form, const ConvProblem& conv, bool patches, const Chip& chip) {
  const WindowSum& sum = form.sum;
  if (sum.by_multiply_adds()) {
    Work work = ffma_work(conv, chip);
    work.clocks /= chip.multiply_add_speed;
    return work;
  }
  if (!chip.has_wgmma()) return tensor_core_work(conv, chip);
  const Tile tile = (sum.gradient ? gradient_tiles(conv, chip) : forward_tiles(conv, chip)).front();
  Work work = tile_work(conv, tile);
  work.l2_bytes = bytes_of_lines(form, conv, tile);
  const auto take_if_faster = [&](const Work& other) {
    if (chip.seconds(other) < chip.seconds(work)) work = other;
  };
  if (patches && fits_halo(conv, chip)) take_if_faster(forward_work(halo_clocks(conv, chip)));
  if (const auto patch = gradient_patch(conv, chip)) take_if_faster(gradient_work(patch->clocks));
  return work;
}

double conv_seconds(const Form& form, const Chip& chip) {
  const WindowSum& sum = form.sum;
  const ConvProblem conv = form.conv();
  const double results = static_cast<double>(sum.count * conv.p * conv.q) * static_cast<double>(conv.filters);
  const bool f32 = form.has(AxisForm::folded) || form.gathers_results(),
             unaligned = !f32 && !sum.gradient && sum.all_filters() != sum.blocks() * form.filters;
  const double bytes = bytes_of_planes(sum) * size_of_images(form) + (f32 ? 4 : bytes_of(sum)) * results;
  const bool patches = !sum.gradient && !unaligned && !form.has(AxisForm::viewed);
  Work products = product_work(form, conv, patches, chip);
  products.bytes = bytes;
  // Filters of several groups, or of phases, may be zeros before they are copied.
  const bool parts =
      (sum.together > 1 && !form.fills_blocks()) || (form.gathers_results() && form.filters != sum.filters);
  const Work zeros{.launches = !sum.gradient && parts ? 1.0 : 0.0};
  // Filters are copied in another order.
  const double size = static_cast<double>(form.filter_shape().size());
  const Work filters{.bytes = sum.gradient ? 0 : 2 * bytes_of(sum) * size / kTurning};
  // Results of odd numbers of filters leave one by one.
  const Work stores{.clocks = unaligned ? clocks_of_sectors(results / 2, chip) : 0};
  double seconds = chip.seconds(products) + chip.seconds(zeros) + chip.seconds(filters) + chip.seconds(stores);
  if (sum.planes > 0)
    for (const double elements : {size_of_images(form), sum.gradient ? results : size})
      seconds += chip.seconds(planes_work(elements, sum.planes));
  return seconds;
}

// Kernels that gather results; blocks of another size at an axis' end take one of their own.
double kernels_after(const WindowSum& sum) {
  double kernels = sum.groups > 1 && sum.groups % sum.together != 0 ? 2 : 1;
  for (std::size_t i : {0u, 1u})
    if (sum.phases[i] > 1) kernels *= sum.unequal_phases[i] ? 2 : 1;
  return kernels;
}

// The kernel that sums shifted results, or leaves some out, or reads a filter gradient that is stored in another order.
double rest_seconds(const Form& form, const Chip& chip) {
  const WindowSum& sum = form.sum;
  if (sum.gradient && form.stores_gradient()) return 0;
  if (sum.gradient)  // a kernel for each pixel of a block
    return chip.seconds({.bytes = 4 * static_cast<double>(form.filter_shape().size()),
                         .launches = static_cast<double>(form.block_pixels())});
  const double results = static_cast<double>(sum.count * sum.all_filters() * sum.axes[0].results * sum.axes[1].results);
  if (form.gathers_results())
    return chip.seconds({.bytes = (4 + bytes_of(sum)) * results, .launches = kernels_after(sum)});
  if (!form.has(AxisForm::folded)) return 0;
  const Work loads{.clocks = clocks_of_sectors(2 * results * static_cast<double>(form.taps_of(AxisForm::folded)), chip),
                   .launches = 1},
      stores{.bytes = bytes_of(sum) * results};
  return chip.seconds(loads) + chip.seconds(stores);
}

bool fits(const Form& form, const Chip& chip) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const ConvProblem conv = form.conv();
  const std::int64_t rows = form.sum.count * conv.height * conv.width * conv.channels,
                     results = form.sum.count * conv.p * conv.q * conv.filters;
  if (std::max(rows, results) > most || form.filter_extents().size() > most) return false;
  if (!form.reads_images() && bytes_of(form.sum) * size_of_images(form) > kMostCopyBytes) return false;
  // Zeros between blocks of unlike sizes.
  if (form.channels != form.sum.channels && form.sum.blocks() > 1 && form.sum.groups % form.sum.together != 0)
    return false;
  if (form.gathers_results() && 4 * results > kMostCopyBytes) return false;
  if (form.has(AxisForm::folded) && (4 * results > kMostCopyBytes || form.taps_of(AxisForm::folded) > kMostTapsSummed))
    return false;
  if (form.sum.by_multiply_adds()) return conv.groups == 1 && ffma_limits(conv, chip).empty();
  return tensor_core_limits(conv).empty() && (!form.sum.gradient || has_gradient_tiles(conv));
}

// The fewest zeros that make the numbers of a row a multiple of `unit`, and steps of rows pieces of 16 bytes.
void pad_channels(Form& form, std::int64_t unit) {
  const auto last = [&](AxisForm way) { return form.axis_forms[1] == way ? 1 : 0; };
  const std::int64_t channels = form.channels, piece = form.sum.piece();
  const std::array<std::int64_t, 2> taps = form.taps;
  std::optional<Form> best;
  const auto consider = [&](const Form& with) {
    const std::int64_t row = with.row_channels(), step = with.pixel_channels();
    if (row % unit != 0) return;
    if (with.has(AxisForm::viewed) && step * with.axis(at(last(AxisForm::viewed))).stride % piece != 0) return;
    if (!best || std::pair(row, step) < std::pair(best->row_channels(), best->pixel_channels())) best = with;
  };
  const bool rows = form.block_pixels() == 1 && (form.has(AxisForm::copied) || form.has(AxisForm::viewed));
  for (std::int64_t c = channels; c <= round_up(channels, rows ? piece : unit); ++c)
    for (std::int64_t more = 0; more < (form.has(AxisForm::copied) ? piece : 1); ++more)
      for (std::int64_t wider = 0; wider < (form.has(AxisForm::viewed) ? unit : 1); ++wider) {
        Form with = form;
        with.channels = c, with.taps = taps;
        if (more > 0) with.taps[at(last(AxisForm::copied))] += more;
        if (wider > 0) with.taps[at(last(AxisForm::viewed))] += wider;
        consider(with);
      }
  form = *best;
}

// The same of filters, which are read in pieces.
void pad_filters(Form& form) {
  const std::int64_t piece = form.sum.piece(), padded = round_up(form.sum.filters, piece);
  if (!form.has(AxisForm::folded)) {
    form.filters = padded;
    return;
  }
  const std::size_t axis = form.axis_forms[1] == AxisForm::folded ? 1 : 0;
  const std::int64_t taps = form.taps[axis];
  Form best = form;
  best.filters = padded;
  const auto size = [](const Form& f) { return f.filters * f.taps_of(AxisForm::folded); };
  for (std::int64_t k = form.sum.filters; k <= padded; ++k)
    for (std::int64_t more = 0; more < piece; ++more) {
      Form with = form;
      with.filters = k, with.taps[axis] = taps + more;
      if (size(with) % piece == 0 && size(with) < size(best)) best = with;
    }
  form = best;
}

}  // namespace

WindowAxis Form::axis(std::size_t i) const {
  const WindowAxis& layer = sum.axes[i];
  if (!in_blocks[i]) return layer;
  const std::int64_t taps = ceil_div(layer.taps, layer.stride);
  return {.images = layer.results - 1 + taps, .taps = taps, .results = layer.results};
}

std::int64_t Form::taps_of(AxisForm way) const {
  return (axis_forms[0] == way ? taps[0] : 1) * (axis_forms[1] == way ? taps[1] : 1);
}

std::int64_t Form::extent(int axis) const {
  const WindowAxis a = this->axis(at(axis));
  switch (axis_forms[at(axis)]) {
    case AxisForm::copied:
      return a.results;
    case AxisForm::viewed:
      return (a.results - 1) * a.stride + taps[at(axis)];
    case AxisForm::kept:
    case AxisForm::folded:
      break;
  }
  return a.images;
}

bool Form::reads_images() const {
  if (channels != sum.channels || sum.groups % sum.together != 0 || block_pixels() > 1 || has(AxisForm::copied) ||
      axis_forms[0] == AxisForm::viewed)
    return false;
  return axis_forms[1] == AxisForm::kept || axis_forms[1] == AxisForm::folded ||
         (sum.axes[1].pad == 0 && extent(1) <= sum.axes[1].images);
}

ConvProblem Form::conv() const {
  ConvProblem conv{.role = sum.gradient ? ConvRole::filter_grad : ConvRole::output,
                   .images = static_cast<int>(sum.count),
                   .channels = static_cast<int>(sum.blocks() * row_channels()),
                   .filters = static_cast<int>(sum.blocks() * filters * taps_of(AxisForm::folded)),
                   .groups = static_cast<int>(sum.blocks()),
                   .dtype = sum.planes > 0 ? Dtype::f16 : sum.dtype,
                   .planes = sum.planes};
  std::array<int*, 2> images{&conv.height, &conv.width}, window{&conv.r, &conv.s}, results{&conv.p, &conv.q};
  for (std::size_t i : {0u, 1u}) {
    const WindowAxis axis = this->axis(i);
    const bool kept = axis_forms[i] == AxisForm::kept, moves = kept || axis_forms[i] == AxisForm::folded;
    *images[i] = static_cast<int>(moves ? axis.images : axis.results);
    *results[i] = static_cast<int>(axis_forms[i] == AxisForm::folded ? axis.images : axis.results);
    *window[i] = static_cast<int>(kept ? axis.taps : 1);
    conv.stride[i] = static_cast<int>(kept ? axis.stride : 1), conv.pad[i] = static_cast<int>(kept ? axis.pad : 0);
    conv.dilation[i] = static_cast<int>(kept ? axis.dilation : 1);
  }
  return conv;
}

Strides Form::image_strides() const {
  const std::size_t inner = axis_forms[0] == AxisForm::viewed ? 0 : 1;
  Strides strides(4, 1);
  const std::int64_t pixel = sum.blocks() * pixel_channels();
  strides[2 + inner] = pixel;
  strides[3 - inner] = pixel * extent(static_cast<int>(inner));
  strides[0] = pixel * extent(0) * extent(1);
  return strides;
}

bool Form::fills_blocks() const {
  return sum.together > 1 && sum.groups % sum.together == 0 && sum.phases == std::array<std::int64_t, 2>{1, 1} &&
         block_pixels() == 1 && channels == sum.channels && filters == sum.filters;
}

Shape Form::filter_shape() const {
  const ConvProblem convolution = conv();
  return {convolution.filters, convolution.channels / convolution.groups, convolution.r, convolution.s};
}

Strides Form::filter_strides() const {
  const Strides memory = filter_shape().channels_last();
  Strides strides{memory[0], 1, 0, 0};
  for (std::size_t i : {0u, 1u}) {
    const std::int64_t inner =
        i == 0 && axis_forms[1] == axis_forms[0] ? taps[1] : 1;  // taps of both axes, the rows outside
    strides[i + 2] = axis_forms[i] == AxisForm::kept     ? memory[i + 2]
                     : axis_forms[i] == AxisForm::viewed ? pixel_channels()
                     : axis_forms[i] == AxisForm::copied ? channels * inner
                                                         : filters * inner * memory[0];
  }
  return strides;
}

namespace {

// Whether an axis can be in blocks, and this form can have any: blocks have the place of copied taps.
bool can_be_in_blocks(const WindowAxis& axis) { return axis.stride > 1 && axis.dilation == 1 && axis.taps > 1; }

bool is_possible(const Form& form) {
  const WindowSum& sum = form.sum;
  const bool folded = form.has(AxisForm::folded), blocks = form.block_pixels() > 1;
  if (form.axis_forms[0] == AxisForm::viewed && form.axis_forms[1] == AxisForm::viewed) return false;
  if (sum.gradient && folded) return false;
  const bool kept = form.axis_forms[0] == AxisForm::kept && form.axis_forms[1] == AxisForm::kept;
  if (sum.blocks() > 1 && !kept) return false;
  if (sum.planes > 0 && form.has(AxisForm::viewed)) return false;  // planes of rows would not overlap
  if (form.gathers_results() && folded) return false;
  if (blocks && (sum.groups > 1 || folded || form.has(AxisForm::copied))) return false;
  for (std::size_t i : {0u, 1u}) {  // one tap is as good as kept, unless pixels are left out
    if (form.axis_forms[i] != AxisForm::kept && form.axis(i).taps == 1) return false;
    if (form.axis_forms[i] == AxisForm::viewed && sum.axes[i].dilation != 1) return false;
  }
  return true;
}

}  // namespace

std::vector<Form> forms_of(const WindowSum& sum, const Chip& chip) {
  std::vector<Form> forms;
  constexpr AxisForm kWays[] = {AxisForm::kept, AxisForm::copied, AxisForm::viewed, AxisForm::folded};
  const std::vector<std::int64_t> units =
      sum.by_multiply_adds() ? std::vector<std::int64_t>{sum.piece()} : std::vector<std::int64_t>{8, 16, 32, 64};
  const std::array<bool, 2> strided{can_be_in_blocks(sum.axes[0]), can_be_in_blocks(sum.axes[1])};
  const auto add = [&](std::array<bool, 2> in_blocks, AxisForm down, AxisForm across, std::int64_t unit) {
    Form form{.sum = sum, .in_blocks = in_blocks, .axis_forms = {down, across}, .channels = sum.channels};
    form.taps = {form.axis(0).taps, form.axis(1).taps};
    if (!is_possible(form)) return;
    pad_channels(form, unit);
    pad_filters(form);
    const auto same = [&](const Form& known) {
      return known.in_blocks == form.in_blocks && known.axis_forms == form.axis_forms &&
             known.channels == form.channels && known.taps == form.taps;
    };
    if (!fits(form, chip) || std::ranges::any_of(forms, same)) return;
    form.copy_seconds = copy_seconds(form, chip);
    form.seconds = form.copy_seconds + conv_seconds(form, chip) + rest_seconds(form, chip);
    forms.push_back(form);
  };
  for (const AxisForm down : kWays)
    for (const AxisForm across : kWays)
      for (const std::int64_t unit : units) {
        add({false, false}, down, across, unit);
        if (strided[0] || strided[1]) add(strided, down, across, unit);
      }
  std::ranges::stable_sort(forms, {}, &Form::seconds);
  return forms;
}

}  // namespace nixie::cuda
