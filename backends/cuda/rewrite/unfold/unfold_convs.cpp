// Convolutions of 16 bits that no kernel for tensor cores takes become ones that they take: channels and filters are
// padded with zeros, and axes of the window become channels or filters, in the form of least estimated time.
//
// Taps that are channels: images are copied once for each tap, or once in all, with their padding and so many channels
// that a row of the window, read as the channels of one pixel, begins at a multiple of 16 bytes; such rows overlap in
// memory. Taps that are filters: a product for each position of images, then a kernel that sums shifted ones. An input
// gradient of stride 1 is a forward convolution of dy by the turned filter; the filter gradient of few filters is that
// of a layer whose images are dy. Of a layer in groups several are one, with zeros in filters between them.
#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/unfold/axes.h"
#include "nixie/backends/cuda/rewrite/unfold/layers.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

class Unfolding {
 public:
  Unfolding(Plan& plan, const Chip& chip, std::optional<std::size_t> by_rank)
      : plan_(plan), chip_(chip), by_rank_(by_rank) {}

  void operator()() {
    for (Kernel& kernel : plan_.kernels) {
      const auto found = wanted(kernel);
      if (!found)
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
    const ConvMatch match = conv_problem(plan_, kernel, Groups::any);
    const auto* conv = std::get_if<ConvProblem>(&match);
    if (!conv || !conv->is_16_bit()) return {};
    for (const Operand& operand : kernel.head->operands)
      if (dtype_of(plan_, operand) != conv->dtype) return {};
    const std::string_view family = take(plan_, kernel, chip_)->choices.front().family->name();
    const bool portable = family == "gemm";
    if (!portable && (by_rank_ || !fills_badly(*conv, family))) return {};
    std::vector<std::pair<Layer, Form>> all;
    for (const Layer& layer : layers_of(kernel, *conv))
      for (Form form : forms_of(layer.sum, chip_)) {
        if (const int axis = cut_axis(kernel, form); axis >= 0 && !can_cut(kernel, axis)) continue;
        if (!form.reads_images() && find_copy(copy_of(form, layer.images))) form.seconds -= form.copy_seconds;
        all.emplace_back(layer, form);
      }
    if (all.empty()) return {};
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second.seconds < b.second.seconds; });
    if (by_rank_) return all[*by_rank_ % all.size()];
    // No estimate is better than this.
    const double seconds = all[0].second.seconds;
    const bool gains = portable ? seconds + 2e-6 < 0.85 * product_seconds(plan_, kernel, chip_.sms)
                                : seconds + 5e-6 < 0.6 * seconds_as_it_is(*conv, chip_);
    return gains ? std::optional(all[0]) : std::nullopt;
  }

  // Whether tensor cores multiply mostly zeros: of few channels of images a whole slice is read, tap by tap, and of
  // narrow groups a tile has few filters.
  static bool fills_badly(const ConvProblem& conv, std::string_view family) {
    const int channels = (conv.role == ConvRole::input_grad ? conv.filters : conv.channels) / conv.groups;
    return (family == "conv_fprop_sm90" || family == "conv_wgrad_sm90") && channels <= 32 &&
           (conv.r * conv.s > 1 || conv.groups > 1);
  }

  // The axis that kernels after a form are cut along, or none.
  static int cut_axis(const Kernel& kernel, const Form& form) {
    if (form.sum.groups == 1) return -1;
    if (form.sum.gradient) return form.stores_gradient() && !depends_on_position(kernel) ? -1 : 0;
    return form.spreads_results() ? 1 : -1;
  }

  // Images in the form's layout, copied with an access for every copied tap; a copy is shared by kernels that want the
  // same until images change.
  Operand images_in(const Form& form, const Operand& from) {
    const WindowSum& sum = form.sum;
    const ConvProblem conv = form.conv();
    const auto read = [&](Operand images) {
      images.shape = {conv.images, conv.channels, conv.height, conv.width};
      for (int i : {0, 1})
        if (form.ways[at(i)] == Way::viewed) images.strides[at(i + 2)] *= sum.axes[at(i)].stride;
      return images;
    };
    // Without rows to view, layouts are the concern of what prepares operands.
    const bool as_it_is = !form.has(Way::viewed) || (from.strides[3] == sum.all_channels() && is_in_pieces(read(from)));
    if (form.reads_images() && as_it_is) return read(from);
    return read({copied(form, from), 0, form.images(), form.image_strides()});
  }

  static Kernel copy_of(const Form& form, const Operand& from) {
    const std::int64_t blocks = form.sum.blocks();
    Kernel kernel{.label = "unfold",
                  .domain = {form.sum.count, blocks * form.channels, form.extent(0), form.extent(1)}};
    InstructionBuilder code;
    Stage stage;
    const auto taps = [&](std::size_t i) { return form.ways[i] == Way::copied ? form.taps[i] : 1; };
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

  // What the copied images take at each position, of one tap along copied axes; none past the last tap.
  static std::optional<Access> pixels_of(const Form& form, const Operand& from, std::array<std::int64_t, 2> tap) {
    Access load{.slot = from.slot, .offset = from.offset, .strides = from.strides};
    load.inside = {{0, form.sum.count}, {0, form.sum.all_channels()}};
    for (std::size_t i : {0u, 1u}) {
      const WindowAxis& axis = form.sum.axes[i];
      const Way way = form.ways[i];
      if (way == Way::copied && tap[i] >= axis.taps) return {};
      std::int64_t first = 0, step = 1;  // pixel at position 0
      if (way == Way::copied) first = tap[i] * axis.dilation - axis.pad, step = axis.stride;
      if (way == Way::viewed) first = -axis.pad;
      load.inside.push_back(positions_inside(axis.images, first, step, form.extent(static_cast<int>(i))));
      load.offset += first * load.strides[i + 2], load.strides[i + 2] *= step;
    }
    return load;
  }

  // Positions below `count` whose first + step * position is in [0, size).
  static std::pair<std::int64_t, std::int64_t> positions_inside(std::int64_t size, std::int64_t first,
                                                                std::int64_t step, std::int64_t count) {
    const auto bound = [&](std::int64_t pixel) {
      return pixel <= first ? 0 : std::min(ceil_div(pixel - first, step), count);
    };
    const std::int64_t low = bound(0);
    return {low, std::max(low, bound(size))};
  }

  // Filters in the form's layout, with zeros where it has more of them, of channels or of taps.
  Operand filters_in(const Form& form, const Layer& layer) {
    const Shape shape = form.filter_shape();
    const Operand& from = layer.other;
    const int slot = add_slot(plan_, "unfolded filters", form.sum.dtype, shape, shape.channels_last());
    Kernel kernel{.label = "unfold filters", .domain = form.filter_extents()};
    kernel.loads = {{.slot = from.slot, .offset = from.offset, .strides = from.strides}};
    kernel.stores = {{.slot = slot, .strides = form.filter_strides()}};
    kernel.stages = {{.body = {{.primitive = Primitive::load}}, .stores = {{0, 0}}}};
    if (form.sum.groups == 1) {
      for (int axis = 0; axis < 4; ++axis) kernel.loads[0].inside.emplace_back(0, from.shape[axis]);
      kernels_.push_back(std::move(kernel));
    } else {
      Kernel zeros{.label = "zeros of filters", .domain = Shape{shape.size()}};
      zeros.stores = {{.slot = slot, .strides = {1}}};
      zeros.stages = {{.body = {{.primitive = Primitive::constant}}, .stores = {{0, 0}}}};
      if (form.sum.together > 1 || form.filter_extents() != from.shape) kernels_.push_back(std::move(zeros));
      for_groups(form, [&](std::int64_t block, const Shape& groups, const Strides& steps) {
        Kernel part = kernel;
        std::vector<std::int64_t> domain{groups[0], groups[1]};
        for (int axis = 0; axis < 4; ++axis) domain.push_back(from.shape[axis]);
        part.domain = Shape(domain);
        part.loads[0].offset += block * form.sum.together * layer.group_step;
        part.loads[0].strides.insert(part.loads[0].strides.begin(),
                                     {form.sum.together * layer.group_step, layer.group_step});
        part.stores[0].offset += block * steps[0];
        part.stores[0].strides.insert(part.stores[0].strides.begin(), steps.begin(), steps.end());
        kernels_.push_back(std::move(part));
      });
    }
    return {slot, 0, shape, shape.channels_last()};
  }

  // Calls act(first block, [blocks, groups in each], steps in the form's filters between them) for all blocks; the last
  // may have fewer groups.
  template <class Act>
  static void for_groups(const Form& form, const Act& act) {
    const WindowSum& sum = form.sum;
    const std::int64_t filter = form.filter_strides()[0],
                       next = sum.filters / sum.together * filter + sum.channels / sum.together;
    for_equal_blocks(sum.groups, sum.together, [&](std::int64_t block, std::int64_t count, std::int64_t groups) {
      act(block, Shape{count, groups}, Strides{form.filters * filter, next});
    });
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
    if (form.has(Way::folded)) {
      Kernel alone = apart(kernel, {conv.images, conv.filters, conv.p, conv.q}).first;
      fold(kernel, alone.stores[0].slot, form);
      rest = std::move(kernel), kernel = std::move(alone);
    } else if (form.spreads_results()) {
      auto [alone, after] = apart(kernel, kernel.domain.with(1, conv.filters));
      kernel = std::move(alone);
      kernel.head->op = op, kernel.head->operands = operands;
      Access made = kernel.stores[0];
      kernels_.push_back(std::move(kernel));
      gather(after, form, made);
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

  // The kernels that read results of all blocks, which `made` are in the last load's place.
  void gather(const Kernel& rest, const Form& form, const Access& made) {
    for_equal_blocks(
        form.sum.all_filters(), form.sum.filters, [&](std::int64_t first, std::int64_t blocks, std::int64_t filters) {
          Kernel part =
              with_split_axis(part_of(rest, 1, first * form.sum.filters, blocks * filters), 1, {blocks, filters});
          Access& load = part.loads.back();
          load.offset = made.offset + first * form.filters;
          load.strides = made.strides;
          load.strides.insert(load.strides.begin() + 1, form.filters);
          kernels_.push_back(std::move(part));
        });
  }

  // A kernel sums what its head was, made with taps as filters, over these.
  static void fold(Kernel& kernel, int made, const Form& form) {
    const ConvProblem conv = form.conv();
    const Strides memory = Shape{conv.images, conv.filters, conv.p, conv.q}.channels_last();
    const auto taps = [&](std::size_t i) { return form.ways[i] == Way::folded ? form.sum.axes[i].taps : 1; };
    const auto first_load = static_cast<int>(kernel.loads.size());
    for (std::int64_t r = 0; r < taps(0); ++r)
      for (std::int64_t s = 0; s < taps(1); ++s) {
        Access load{.slot = made, .strides = memory};
        load.inside = {{0, kernel.domain[0]}, {0, kernel.domain[1]}};
        const std::int64_t row = form.ways[1] == Way::folded ? form.taps[1] : 1;
        load.offset = (r * row + s) * form.filters;
        for (std::size_t i : {0u, 1u}) {
          const WindowAxis& axis = form.sum.axes[i];
          const bool folded = form.ways[i] == Way::folded;
          const std::int64_t first = folded ? (i ? s : r) * axis.dilation - axis.pad : 0;
          load.inside.push_back(
              positions_inside(folded ? axis.images : axis.results, first, folded ? axis.stride : 1, axis.results));
          load.offset += first * memory[i + 2];
          if (folded) load.strides[i + 2] *= axis.stride;
        }
        kernel.loads.push_back(std::move(load));
      }
    const auto last_load = static_cast<int>(kernel.loads.size());
    kernel.head.reset();
    replace_head(kernel, [&](InstructionBuilder& code, const Instruction&) {
      int sum = code.load(first_load);
      for (int load = first_load + 1; load < last_load; ++load) sum = code.apply(Primitive::add, sum, code.load(load));
      return sum;
    });
    kernel.label += " folded";
  }

  void gradient(Kernel kernel, const Layer& layer, const Form& form) {
    const ConvProblem conv = form.conv();
    Form results{.sum = form.sum, .channels = form.filters, .taps = {1, 1}};  // dy, with its filters as channels
    results.sum.channels = form.sum.filters;
    for (WindowAxis& axis : results.sum.axes) axis = {.images = axis.results, .taps = 1, .results = axis.results};
    const std::vector<Operand> operands = {images_in(results, layer.other), images_in(form, layer.images)};
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
    Operand made{.shape = layer_filters(kernel, layer), .strides = form.filter_strides()};
    if (layer.sum.turned) {
      std::swap(made.strides[0], made.strides[1]);
      for (int axis : {2, 3}) turn(made, axis);
    }
    if (layer.sum.groups == 1) {
      rest.loads.back().offset = made.offset, rest.loads.back().strides = made.strides;
      kernels_.push_back(std::move(rest));
      return;
    }
    for_groups(form, [&](std::int64_t block, const Shape& groups, const Strides& steps) {
      const std::int64_t filters = made.shape[0], first = block * layer.sum.together * filters;
      Kernel part =
          with_split_axis(part_of(rest, 0, first, groups.size() * filters), 0, {groups[0], groups[1], filters});
      Access& load = part.loads.back();
      load.offset = made.offset + block * steps[0], load.strides = made.strides;
      load.strides.insert(load.strides.begin(), steps.begin(), steps.end());
      kernels_.push_back(std::move(part));
    });
  }

  // Of one group [filters, channels, taps].
  static Shape layer_filters(const Kernel& kernel, const Layer& layer) {
    return kernel.domain.with(0, kernel.domain[0] / layer.sum.groups);
  }

  Plan& plan_;
  const Chip& chip_;
  const std::optional<std::size_t> by_rank_;
  std::vector<Kernel> kernels_;
  std::vector<Copy> copies_;
};

}  // namespace

void unfold_convs(Plan& plan, const Chip& chip, std::optional<std::size_t> by_rank) {
  Unfolding{plan, chip, by_rank}();
}

}  // namespace nixie::cuda
