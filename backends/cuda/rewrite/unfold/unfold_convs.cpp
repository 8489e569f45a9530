// Transforms convolutions of 16-bit operands, on Hopper also of f32, that only portable kernels accept: pads channels
// and filters with zeros, and turns axes of the window into channels or filters, in the form with the least estimated
// time.
//
// Taps as channels (im2col): images are copied once for each tap, or once in all, with their padding and enough
// channels that a row of the window, read as the channels of one pixel, begins at a multiple of 16 bytes; such rows
// overlap in memory. Taps as filters: a product for each position of images, then a kernel that sums the shifted
// results. An input gradient of stride 1 is a forward convolution of dy with the flipped filter; the filter gradient of
// few filters is that of a layer whose images are dy. Several groups of a grouped layer are merged, with zeros in
// filters between them.
#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/families/conv/conv_cost.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/unfold/axes.h"
#include "nixie/backends/cuda/rewrite/unfold/filters.h"
#include "nixie/backends/cuda/rewrite/unfold/results.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// Which convolutions change their form: input gradients with strides, or all others.
enum class Only : std::uint8_t { strided_input_grads, others };

class Unfolding {
 public:
  Unfolding(Plan& plan, const Chip& chip, Only only, std::optional<std::size_t> by_rank)
      : plan_(plan), chip_(chip), only_(only), by_rank_(by_rank) {}

  void operator()() {
    for (Kernel& kernel : plan_.kernels) {
      const auto found = wanted(kernel);
      if (!found && only_ == Only::strided_input_grads && phases_pay(kernel))
        add_phases(kernel);
      else if (!found)
        kernels_.push_back(std::move(kernel));
      else if (found->first.sum.gradient)
        gradient(std::move(kernel), found->first, found->second);
      else
        forward(std::move(kernel), found->first, found->second);
      std::erase_if(copies_, [&](const Copy& copy) { return writes(kernels_.back(), copy.from); });
    }
    plan_.kernels = std::move(kernels_);
  }

 private:
  struct Copy {
    int from;
    Shape domain;
    std::vector<Access> loads;
    Strides strides;
    int slot;
  };

  std::optional<std::pair<Layer, Form>> wanted(const Kernel& kernel) const {
    const std::optional<ConvProblem> conv = as_multiplied(kernel);
    if (!conv) return {};
    const bool strided = conv->role == ConvRole::input_grad && conv->stride != std::array{1, 1};
    if (!by_rank_ && strided != (only_ == Only::strided_input_grads)) return {};
    if (!by_rank_ && !strided && !chip_.has_wgmma() && reads_pieces(*conv)) return {};
    const Choice choice = take(plan_, kernel, chip_)->choices.front();
    const bool portable = is_portable(choice);
    if (!portable && (by_rank_ || !fills_badly(*conv, choice.family->name()) || problem_of(choice).by_rows)) return {};
    const std::vector<std::pair<Layer, Form>> all = forms(kernel, *conv);
    if (all.empty()) return {};
    if (by_rank_) return all[*by_rank_ % all.size()];
    // No estimate is better than this.
    const double seconds = all[0].second.seconds;
    const bool gains = !portable
                           ? seconds + kMargin < 0.75 * seconds_as_it_is(kernel, *conv)
                           : seconds + kMargin / 2 < 0.95 * (strided ? seconds_of_phases(kernel)
                                                                     : unsplit_estimate(plan_, kernel, chip_).seconds);
    return gains ? std::optional(all[0]) : std::nullopt;
  }

  // Without wgmma layers of one group whose channels and filters are read in pieces of 16 bytes stay as they are.
  static bool reads_pieces(const ConvProblem& conv) {
    return conv.groups == 1 && conv.channels % 8 == 0 && conv.filters % 8 == 0;
  }

  // By a kernel that competes with forms by its estimate, not with a kernel of its own for such layers.
  static bool is_portable(const Choice& choice) {
    return choice.family->name() == "gemm" || choice.family->name() == "conv_ffma_sm90";
  }

  double seconds_as_it_is(const Kernel& kernel, const ConvProblem& conv) const {
    return conv.planes > 0 ? split_estimate(plan_, kernel, conv, chip_).seconds
                           : chip_.seconds(tensor_core_work(conv, chip_));
  }

  // The sizes of a convolution as it is multiplied: in halves; with wgmma f32 operands in planes or, under `ieee`, as
  // they are.
  std::optional<ConvProblem> as_multiplied(const Kernel& kernel) const {
    if (const auto conv = conv_of_16_bits(plan_, kernel, Groups::any); conv || !chip_.has_wgmma()) return conv;
    const std::optional<ConvProblem> conv = conv_of(plan_, kernel, Groups::any);
    if (!conv || !all_f32(plan_, *kernel.head)) return {};
    return in_planes(*conv, std::get<Conv>(kernel.head->op).math).value_or(*conv);
  }

  // The one of least estimated time first.
  std::vector<std::pair<Layer, Form>> forms(const Kernel& kernel, const ConvProblem& conv) const {
    std::vector<std::pair<Layer, Form>> all;
    std::vector<Layer> layers = layers_of(kernel, conv);
    if (conv.planes == 2) {  // fp32 may be multiplied as it is, too
      ConvProblem unsplit = conv;
      unsplit.dtype = Dtype::f32, unsplit.planes = 0;
      for (Layer& layer : layers_of(kernel, unsplit)) layers.push_back(std::move(layer));
    }
    for (const Layer& layer : layers)
      for (Form form : forms_of(layer.sum, chip_)) {
        const std::vector<int> cut = cut_axes(kernel, form);
        if (!std::ranges::all_of(cut, [&](int axis) { return can_cut(kernel, axis); })) continue;
        if (!form.reads_images() && find_copy(copy_of(form, layer.images))) form.seconds -= form.copy_seconds;
        all.emplace_back(layer, form);
      }
    std::ranges::stable_sort(all, {}, [](const auto& one) { return one.second.seconds; });
    return all;
  }

  // The seconds of a strided input gradient, or its phases. Phases of f32 operands run side by side where they leave
  // a part of the chip.
  double seconds_in(const Plan& plan) const {
    constexpr double kBesideOthers = 0.6, kZeros = 0.4;  // launches, zeros in ones that several share
    const double least = chip_.seconds({.launches = kBesideOthers}), zeros = chip_.seconds({.launches = kZeros});
    double sum = 0, filled = 0, longest = 0;
    for (const Kernel& phase : plan.kernels) {
      const auto [seconds, share] = phase.head ? estimate_of(plan, phase) : Estimate{.seconds = zeros};
      sum += seconds, filled += std::max(least, seconds * share), longest = std::max(longest, seconds);
    }
    const bool is_f32 =
        std::ranges::all_of(plan.kernels, [&](const Kernel& k) { return !k.head || all_f32(plan, *k.head); });
    return is_f32 ? std::max(longest, std::min(sum, filled)) : sum;
  }

  Estimate estimate_of(const Plan& plan, const Kernel& phase) const {
    const std::optional<ConvProblem> conv = as_multiplied(phase);
    const bool portable = is_portable(take(plan, phase, chip_)->choices.front());
    if (conv && !portable && conv->is_16_bit())
      return conv->planes > 0 ? split_estimate(plan, phase, *conv, chip_)
                              : Estimate{.seconds = chip_.seconds(tensor_core_work(*conv, chip_))};
    const Estimate unsplit = unsplit_estimate(plan, phase, chip_);
    // Not where a kernel computes all phases as it is.
    const bool changes = conv && portable && conv->stride == std::array{1, 1};
    const auto all = changes ? forms(phase, *conv) : std::vector<std::pair<Layer, Form>>();
    return all.empty() || unsplit.seconds <= all[0].second.seconds ? unsplit
                                                                   : Estimate{.seconds = all[0].second.seconds};
  }

  // A strided input gradient as lowering would have it, or in phases `wherever_possible`.
  Plan in_phases(const Kernel& kernel, bool wherever_possible) const {
    Plan plan{.kernels = {kernel}, .slots = plan_.slots};
    lower_strided_input_grads(plan, wherever_possible);
    return plan;
  }

  double seconds_of_phases(const Kernel& kernel) const {
    return std::min(seconds_in(in_phases(kernel, false)), seconds_in(in_phases(kernel, true)));
  }

  // Whether a small strided input gradient, which lowering would leave one kernel, is faster in phases.
  bool phases_pay(const Kernel& kernel) const {
    const std::optional<ConvProblem> conv = conv_of(plan_, kernel, Groups::any);
    if (!conv || conv->role != ConvRole::input_grad || conv->stride == std::array{1, 1}) return false;
    if (take(plan_, kernel, chip_)->choices.front().family->name() != "gemm") return false;
    return seconds_in(in_phases(kernel, true)) + kMargin < 0.85 * seconds_in(in_phases(kernel, false));
  }

  void add_phases(const Kernel& kernel) {
    Plan plan = in_phases(kernel, true);
    plan_.slots = std::move(plan.slots);
    for (Kernel& phase : plan.kernels) kernels_.push_back(std::move(phase));
  }

  // Whether tensor cores multiply mostly zeros: of few channels of images a whole slice is read, tap by tap; of narrow
  // groups a tile has few filters, and a filter gradient's of few filters.
  static bool fills_badly(const ConvProblem& conv, std::string_view family) {
    constexpr int kFew = 32;
    const int channels = (conv.role == ConvRole::input_grad ? conv.filters : conv.channels) / conv.groups,
              filters = conv.filters / conv.groups;
    return (family == "conv_fprop_sm90" || family == "conv_wgrad_sm90") &&
           (channels <= kFew || (conv.role == ConvRole::filter_grad && filters <= kFew)) &&
           (conv.r * conv.s > 1 || conv.groups > 1);
  }

  // Images in the form's layout, copied with an access for every copied tap; a copy is shared by kernels that want the
  // same until images change.
  Operand images_in(const Form& form, const Operand& from) {
    const WindowSum& sum = form.sum;
    const ConvProblem conv = form.conv();
    const auto read = [&](Operand images) {
      images.shape = {conv.images, conv.channels, conv.height, conv.width};
      for (int i : {0, 1})
        if (form.axis_forms[at(i)] == AxisForm::viewed) images.strides[at(i + 2)] *= form.axis(at(i)).stride;
      return images;
    };
    // Without rows to view, layouts are the concern of what prepares operands.
    const bool as_it_is =
        !form.has(AxisForm::viewed) || (from.strides[3] == sum.all_channels() && is_in_pieces(read(from)));
    if (form.reads_images() && as_it_is) return read(from);
    return read({copied(form, from), 0, form.images(), form.image_strides()});
  }

  static Kernel copy_of(const Form& form, const Operand& from) {
    const std::int64_t blocks = form.sum.blocks();
    Kernel kernel{.label = "unfold",
                  .domain = {form.sum.count, blocks * form.channels, form.extent(0), form.extent(1)}};
    InstructionBuilder code;
    Stage stage;
    const auto taps = [&](std::size_t i) {
      return form.axis_forms[i] == AxisForm::copied ? form.taps[i] : form.block_pixels(i);
    };
    for (std::int64_t r = 0; r < taps(0); ++r)
      for (std::int64_t s = 0; s < taps(1); ++s) {
        const auto place = static_cast<int>(kernel.stores.size());
        kernel.stores.push_back({.offset = place * form.channels, .strides = form.image_strides()});
        const std::optional<Access> load = pixels_of(form, from, {r, s});
        if (load) kernel.loads.push_back(*load);
        stage.stores.push_back({load ? code.load(static_cast<int>(kernel.loads.size()) - 1) : code.number(0), place});
      }
    stage.body = std::move(code.body);
    kernel.stages = {std::move(stage)};
    if (blocks > 1 && form.channels != form.sum.channels) {  // zeros after each block
      kernel = with_split_axis(std::move(kernel), 1, {blocks, form.channels});
      for (Access& load : kernel.loads)
        load.strides[1] = load.strides[2] * form.sum.channels, load.inside[2] = {0, form.sum.channels};
    }
    return kernel;
  }

  std::optional<int> find_copy(const Kernel& kernel) const {
    for (const Copy& copy : copies_)
      if (copy.domain == kernel.domain && copy.loads == kernel.loads && copy.strides == kernel.stores[0].strides)
        return copy.slot;
    return {};
  }

  int copied(const Form& form, const Operand& from) {
    Kernel kernel = copy_of(form, from);
    if (const auto known = find_copy(kernel)) return *known;
    const int slot = add_slot(plan_, "unfolded images", form.sum.dtype, form.images(), form.image_strides());
    for (Access& store : kernel.stores) store.slot = slot;
    copies_.push_back({from.slot, kernel.domain, kernel.loads, kernel.stores[0].strides, slot});
    kernels_.push_back(std::move(kernel));
    return slot;
  }

  // The pixels that copied images take at each position, of one tap along copied axes, of a pixel of blocks; none past
  // the last tap.
  static std::optional<Access> pixels_of(const Form& form, const Operand& from, std::array<std::int64_t, 2> tap) {
    Access load = access_of(from);
    load.inside = {{0, form.sum.count}, {0, form.sum.all_channels()}};
    for (std::size_t i : {0u, 1u}) {
      const WindowAxis& axis = form.sum.axes[i];
      const AxisForm way = form.axis_forms[i];
      if (way == AxisForm::copied && tap[i] >= axis.taps) return {};
      std::int64_t first = 0, step = 1;  // pixel at position 0
      if (way == AxisForm::copied) first = tap[i] * axis.dilation - axis.pad, step = axis.stride;
      if (way == AxisForm::viewed) first = -axis.pad;
      if (form.in_blocks[i]) first = tap[i] - axis.pad, step = axis.stride;
      load.inside.push_back(positions_inside(axis.images, first, step, form.extent(static_cast<int>(i))));
      load.offset += first * load.strides[i + 2], load.strides[i + 2] *= step;
    }
    return load;
  }

  // Filters in the form's layout.
  Operand filters_in(const Form& form, const Layer& layer) {
    const Shape shape = form.filter_shape();
    const int slot = add_slot(plan_, "unfolded filters", form.sum.dtype, shape, shape.channels_last());
    for (Kernel& kernel : filter_copies(form, layer, slot)) kernels_.push_back(std::move(kernel));
    return {slot, 0, shape, shape.channels_last()};
  }

  static Conv op_of(const ConvProblem& conv, Math math) {
    Conv op{.role = conv.role, .math = math};
    op.stride = {conv.stride[0], conv.stride[1]}, op.pad = {conv.pad[0], conv.pad[1]};
    op.dilation = {conv.dilation[0], conv.dilation[1]}, op.groups = conv.groups;
    return op;
  }

  // The kernel over more channels or filters along an axis, which it neither reads nor stores.
  static void widen(Kernel& kernel, int axis, std::int64_t size) {
    const Shape before = kernel.domain;
    if (before[axis] == size) return;
    kernel.domain = before.with(axis, size);
    const auto bound = [&](Access& access) {
      if (access.inside.empty())
        for (int i = 0; i < before.rank(); ++i) access.inside.emplace_back(0, before[i]);
    };
    for (Access& load : kernel.loads)
      if (load.strides[at(axis)] != 0) bound(load);
    for (Access& load : kernel.loads)
      if (load.strides[at(axis)] == 0 && !load.inside.empty() && load.inside[at(axis)].second == before[axis])
        load.inside[at(axis)].second = size;
    for (Access& store : kernel.stores) bound(store);
  }

  // The head alone, made with this shape; and the rest.
  std::pair<Kernel, Kernel> apart(const Kernel& kernel, const Shape& shape) {
    auto [alone, rest] = split_head(plan_, kernel, kernel.domain.channels_last(), kernel.label);
    Slot& made = plan_.slots.back();
    made.shape = alone.domain = shape;
    made.strides = alone.stores[0].strides = shape.channels_last();
    return {std::move(alone), std::move(rest)};
  }

  void forward(Kernel kernel, const Layer& layer, const Form& form) {
    const ConvProblem conv = form.conv();
    const std::vector<Operand> operands = {images_in(form, layer.images), filters_in(form, layer)};
    const Conv op = op_of(conv, std::get<Conv>(kernel.head->op).math);
    std::optional<Kernel> rest;
    if (form.has(AxisForm::folded)) {
      Kernel alone = apart(kernel, {conv.images, conv.filters, conv.p, conv.q}).first;
      rest = folded(std::move(kernel), alone.stores[0].slot, form), kernel = std::move(alone);
    } else if (form.gathers_results()) {
      auto [alone, after] = apart(kernel, {conv.images, conv.filters, conv.p, conv.q});
      alone.head->op = op, alone.head->operands = operands;
      const Access made = alone.stores[0];
      kernels_.push_back(std::move(alone));
      for (Kernel& part : gathered(after, form, made)) kernels_.push_back(std::move(part));
      return;
    } else if (conv.filters != kernel.domain[1] && depends_on_position(kernel)) {
      auto [alone, after] = apart(kernel, kernel.domain.with(1, conv.filters));
      after.loads.back().strides = alone.stores[0].strides;
      kernel = std::move(alone), rest = std::move(after);
    } else {
      widen(kernel, 1, conv.filters);
    }
    kernel.head->op = op, kernel.head->operands = operands;
    kernels_.push_back(std::move(kernel));
    if (rest) kernels_.push_back(*std::move(rest));
  }

  void gradient(Kernel kernel, const Layer& layer, const Form& form) {
    const ConvProblem conv = form.conv();
    Form results{.sum = form.sum, .channels = form.filters, .taps = {1, 1}};  // dy, with its filters as channels
    results.sum.channels = form.sum.filters;
    for (WindowAxis& axis : results.sum.axes) axis = {.images = axis.results, .taps = 1, .results = axis.results};
    const std::vector<Operand> operands = {images_in(results, layer.results), images_in(form, layer.images)};
    const Conv op = op_of(conv, std::get<Conv>(kernel.head->op).math);
    if (form.stores_gradient() && !depends_on_position(kernel)) {
      widen(kernel, 0, conv.filters), widen(kernel, 1, form.channels);
      kernel.head->op = op, kernel.head->operands = operands;
      kernels_.push_back(std::move(kernel));
      return;
    }
    auto [alone, rest] = apart(kernel, form.filter_shape());
    alone.head->op = op, alone.head->operands = operands;
    kernels_.push_back(std::move(alone));
    for (Kernel& part : gathered_gradient(rest, form)) kernels_.push_back(std::move(part));
  }

  static constexpr double kMargin = 0.8 * Chip::kLaunch;  // by which another form should be faster, besides its share

  Plan& plan_;
  const Chip& chip_;
  const Only only_;
  const std::optional<std::size_t> by_rank_;
  std::vector<Kernel> kernels_;
  std::vector<Copy> copies_;
};

}  // namespace

void unfold_convs(Plan& plan, const Chip& chip, std::optional<std::size_t> by_rank) {
  Unfolding{plan, chip, Only::others, by_rank}();
}

void merge_phases(Plan& plan, const Chip& chip) { Unfolding{plan, chip, Only::strided_input_grads, {}}(); }

}  // namespace nixie::cuda
