// Convolutions of 16 bits that no kernel for tensor cores takes become ones that they take: channels and filters are
// padded with zeros, and axes of the window become channels or filters, in the form of least estimated time.
//
// Taps that are channels: images are copied once for each tap, or once in all, with their padding and so many channels
// that a row of the window, read as the channels of one pixel, begins at a multiple of 16 bytes; such rows overlap in
// memory. Taps that are filters: a product for each position of images, then a kernel that sums shifted ones. An input
// gradient of stride 1 is a forward convolution of dy by the turned filter; the filter gradient of few filters is that
// of a layer whose images are dy.
#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/unfold/form.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// A convolution as a sum over a window: which operands it reads, and where its filters are.
struct Layer {
  WindowSum sum = {};
  Operand images = {};  // cut where padding is negative
  Operand other = {};   // forward: filters as [filters, channels, taps]; gradient: of results, [count, filters, ., .]
};

// Axis 2 or 3 read from its last position to the first.
void turn(Operand& operand, int axis) {
  operand.offset += (operand.shape[axis] - 1) * operand.strides[at(axis)];
  operand.strides[at(axis)] *= -1;
}

void swap_axes(Operand& operand) {
  operand.shape = {operand.shape[1], operand.shape[0], operand.shape[2], operand.shape[3]};
  std::swap(operand.strides[0], operand.strides[1]);
}

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

std::vector<Layer> layers_of(const Kernel& kernel, const ConvProblem& conv) {
  const Operand &first = kernel.head->operands[0], &second = kernel.head->operands[1];
  Layer layer{.sum = {.gradient = conv.role == ConvRole::filter_grad, .dtype = conv.dtype, .count = conv.images}};
  layer.sum.axes = {axis_of(conv, 0), axis_of(conv, 1)};
  const bool stride_1 = conv.stride == std::array{1, 1};
  std::vector<Layer> layers;
  const auto add = [&](Layer one) {
    one.sum.channels = one.images.shape[1];
    one.sum.filters = one.sum.gradient ? one.other.shape[1] : one.other.shape[0];
    if (cut_negative_padding(one)) layers.push_back(std::move(one));
  };
  Layer turned_layer = layer;
  for (WindowAxis& axis : turned_layer.sum.axes) axis = turned(axis);
  switch (conv.role) {
    case ConvRole::output:
      layer.images = first, layer.other = second;
      add(layer);
      break;
    case ConvRole::input_grad:
      if (!stride_1) break;
      turned_layer.images = first, turned_layer.other = second;
      swap_axes(turned_layer.other);
      for (int axis : {2, 3}) turn(turned_layer.other, axis);
      add(turned_layer);
      break;
    case ConvRole::filter_grad:
      layer.images = second, layer.other = first;
      add(layer);
      turned_layer.images = first, turned_layer.other = second, turned_layer.sum.turned = true;
      if (stride_1) add(turned_layer);
      break;
  }
  return layers;
}

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
    const ConvMatch match = conv_problem(plan_, kernel);
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

  // Whether tensor cores multiply mostly zeros: of few channels of images a whole slice is read, tap by tap.
  static bool fills_badly(const ConvProblem& conv, std::string_view family) {
    const int channels = conv.role == ConvRole::input_grad ? conv.filters : conv.channels;
    return (family == "conv_fprop_sm90" || family == "conv_wgrad_sm90") && channels <= 32 && conv.r * conv.s > 1;
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
    const bool as_it_is = !form.has(Way::viewed) || (from.strides[3] == sum.channels && is_in_pieces(read(from)));
    if (form.reads_images() && as_it_is) return read(from);
    return read({copied(form, from), 0, form.images(), form.image_strides()});
  }

  static Kernel copy_of(const Form& form, const Operand& from) {
    Kernel kernel{.label = "unfold", .domain = {form.sum.count, form.channels, form.extent(0), form.extent(1)}};
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
    const Strides strides = form.image_strides();
    const int slot = add_slot(plan_, "unfolded images", form.sum.dtype, form.images(), strides);
    for (Access& store : kernel.stores) store.slot = slot;
    copies_.push_back({from.slot, kernel.domain, kernel.loads, strides, slot});
    kernels_.push_back(std::move(kernel));
    return slot;
  }

  // What the copied images take at each position, of one tap along copied axes; none past the last tap.
  static std::optional<Access> pixels_of(const Form& form, const Operand& from, std::array<std::int64_t, 2> tap) {
    Access load{.slot = from.slot, .offset = from.offset, .strides = from.strides};
    load.inside = {{0, form.sum.count}, {0, form.sum.channels}};
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
  Operand filters_in(const Form& form, const Operand& from) {
    const Shape shape = form.filter_shape();
    Kernel kernel{.label = "unfold filters", .domain = form.filter_extents()};
    Access load{.slot = from.slot, .offset = from.offset, .strides = from.strides};
    for (int axis = 0; axis < 4; ++axis) load.inside.emplace_back(0, from.shape[axis]);
    const int slot = add_slot(plan_, "unfolded filters", form.sum.dtype, shape, shape.channels_last());
    kernel.loads = {std::move(load)};
    kernel.stores = {{.slot = slot, .strides = form.filter_strides()}};
    kernel.stages = {{.body = {{.primitive = Primitive::load}}, .stores = {{0, 0}}}};
    kernels_.push_back(std::move(kernel));
    return {slot, 0, shape, shape.channels_last()};
  }

  static Conv op_of(const ConvProblem& conv, Math math) {
    Conv op{.role = conv.role, .math = math};
    op.stride = {conv.stride[0], conv.stride[1]}, op.pad = {conv.pad[0], conv.pad[1]};
    op.dilation = {conv.dilation[0], conv.dilation[1]};
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
    const std::vector<Operand> operands = {images_in(form, layer.images), filters_in(form, layer.other)};
    const Conv op = op_of(conv, std::get<Conv>(kernel.head->op).math);
    std::optional<Kernel> rest;
    if (form.has(Way::folded)) {
      Kernel alone = apart(kernel, {conv.images, conv.filters, conv.p, conv.q}).first;
      fold(kernel, alone.stores[0].slot, form);
      rest = std::move(kernel), kernel = std::move(alone);
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
    std::optional<Kernel> rest;
    if (form.keeps_window() && !layer.sum.turned && !depends_on_position(kernel)) {
      widen(kernel, 0, conv.filters), widen(kernel, 1, conv.channels);
    } else {
      auto [alone, after] = apart(kernel, form.filter_shape());
      Operand made{.shape = kernel.domain, .strides = form.filter_strides()};
      if (layer.sum.turned) {
        std::swap(made.strides[0], made.strides[1]);
        for (int axis : {2, 3}) turn(made, axis);
      }
      after.loads.back().offset = made.offset, after.loads.back().strides = made.strides;
      kernel = std::move(alone), rest = std::move(after);
    }
    kernel.head->op = op, kernel.head->operands = operands;
    kernels_.push_back(std::move(kernel));
    if (rest) kernels_.push_back(*std::move(rest));
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
