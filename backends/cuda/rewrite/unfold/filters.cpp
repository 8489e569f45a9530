// Writes filters: each group's, or each phase's, to its place.
#include "nixie/backends/cuda/rewrite/unfold/filters.h"

#include <algorithm>
#include <span>

#include "nixie/backends/cuda/rewrite/unfold/axes.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/instruction_builder.h"

namespace nixie::cuda {
namespace {

Kernel zeros(int slot, std::int64_t size) {
  Kernel kernel{.label = "zeros of filters", .domain = Shape{size}};
  kernel.stores = {{.slot = slot, .strides = {1}}};
  kernel.stages = {{.body = {{.primitive = Primitive::constant}}, .stores = {{0, 0}}}};
  return kernel;
}

// So many parts of a group's filters in one kernel: all loads are on their way before the first store, in registers.
constexpr std::size_t kPartsAtOnce = 8;

// The filters that are copied at a time: a group's, of a phase, at the taps that meet a pixel of blocks.
struct Copied {
  Access load = {};
  std::int64_t to = 0;
};

std::vector<Copied> copied_parts(const Form& form, const Layer& layer) {
  std::vector<Copied> all;
  for (const FilterPart& part : layer.parts)
    for_block_pixels(form, [&](std::array<std::int64_t, 2> pixel, std::int64_t channel) {
      Copied one{part.load, part.filter * form.filter_strides()[0] + channel};
      one.load.inside = {{0, layer.part_shape[0]}, {0, layer.part_shape[1]}};
      for (std::size_t i : {0u, 1u}) {
        auto [low, high] = part.taps[i];
        std::int64_t& step = one.load.strides[i + 2];
        if (form.in_blocks[i])
          one.load.offset += pixel[i] * step, step *= form.block_pixels(i),
              high = taps_of_pixel(high, form.block_pixels(i), pixel[i]);
        one.load.inside.emplace_back(low, high);
      }
      all.push_back(std::move(one));
    });
  return all;
}

// Some of these over [filters, channels, taps].
Kernel copy_of(const Form& form, std::span<const Copied> parts, int slot, const Shape& domain) {
  Kernel kernel{.label = "unfold filters", .domain = domain};
  InstructionBuilder code;
  Stage stage;
  for (const Copied& part : parts) {
    const auto place = static_cast<int>(kernel.loads.size());
    kernel.loads.push_back(part.load);
    kernel.stores.push_back({.slot = slot, .offset = part.to, .strides = form.filter_strides()});
    stage.stores.push_back({code.load(place), place});
  }
  stage.body = std::move(code.body);
  kernel.stages = {std::move(stage)};
  return kernel;
}

// Blocks of equal groups: the filters of one for the channels of another are zeros.
Kernel blocks_of(const Form& form, const Layer& layer, const Copied& part, int slot) {
  const WindowSum& sum = form.sum;
  const std::int64_t together = sum.together, of_filters = form.filter_strides()[0];
  const auto [filters, channels] = layer.part_shape;
  Kernel kernel{.label = "unfold filters",
                .domain = {sum.blocks(), together, filters, together, channels, form.taps[0], form.taps[1]}};
  const auto access = [&](const Access& one, std::int64_t block, std::int64_t group, std::int64_t other) {
    Access all = one;
    all.strides = {block, group, one.strides[0], other, one.strides[1], one.strides[2], one.strides[3]};
    return all;
  };
  Access load = access(part.load, together * layer.group_step, layer.group_step, 0);
  load.inside.clear();
  for (int axis = 0; axis < kernel.domain.rank(); ++axis) load.inside.emplace_back(0, kernel.domain[axis]);
  std::copy(part.load.inside.begin() + 2, part.load.inside.end(), load.inside.end() - 2);
  kernel.loads = {load};
  kernel.stores = {access({.slot = slot, .strides = form.filter_strides()}, form.filters * of_filters,
                          filters * of_filters, channels * form.filter_strides()[1])};
  InstructionBuilder code;
  const int group = code.add({.primitive = Primitive::coordinate, .type = Dtype::i32, .index = 1}),
            other = code.add({.primitive = Primitive::coordinate, .type = Dtype::i32, .index = 3}),
            same = code.add({.primitive = Primitive::equal, .type = Dtype::i32, .args = {group, other}}),
            chosen = code.apply(Primitive::select, code.apply(Primitive::cast, same), code.load(0), code.number(0));
  kernel.stages = {{.body = std::move(code.body), .stores = {{chosen, 0}}}};
  return kernel;
}

}  // namespace

std::int64_t group_step(const Form& form) {
  return form.sum.filters / form.sum.together * form.filter_strides()[0] + form.sum.channels / form.sum.together;
}

std::vector<Kernel> filter_copies(const Form& form, const Layer& layer, int slot) {
  const WindowSum& sum = form.sum;
  const std::vector<Copied> parts = copied_parts(form, layer);
  const auto some = [&](std::size_t first) {
    return std::span(parts).subspan(first, std::min(kPartsAtOnce, parts.size() - first));
  };
  const std::int64_t size = form.filter_shape().size();
  std::vector<Kernel> kernels;
  if (sum.groups == 1) {
    const bool whole = layer.parts.size() == 1;
    if (!whole && form.filters != sum.filters) kernels.push_back(zeros(slot, size));
    const Shape domain{whole ? form.filters : layer.part_shape[0], form.channels, form.taps[0], form.taps[1]};
    for (std::size_t i = 0; i < parts.size(); i += kPartsAtOnce)
      kernels.push_back(copy_of(form, some(i), slot, domain));
    return kernels;
  }
  if (form.fills_blocks()) return {blocks_of(form, layer, parts[0], slot)};
  if (sum.together > 1 || form.channels != sum.channels || form.filters != sum.filters)
    kernels.push_back(zeros(slot, size));
  const Shape domain{layer.part_shape[0], layer.part_shape[1], form.taps[0], form.taps[1]};
  const std::int64_t block_step = form.filters * form.filter_strides()[0];
  for (std::size_t i = 0; i < parts.size(); i += kPartsAtOnce) {
    const Kernel one = copy_of(form, some(i), slot, domain);
    for_equal_blocks(sum.groups, sum.together, [&](std::int64_t first, std::int64_t blocks, std::int64_t groups) {
      Kernel kernel = one;
      kernel.domain = {blocks, groups, domain[0], domain[1], domain[2], domain[3]};
      const auto along_groups = [&](Access& access, std::int64_t block, std::int64_t group) {
        access.offset += first * block;
        access.strides.insert(access.strides.begin(), {block, group});
        if (!access.inside.empty()) access.inside.insert(access.inside.begin(), {{0, blocks}, {0, groups}});
      };
      for (Access& load : kernel.loads) along_groups(load, sum.together * layer.group_step, layer.group_step);
      for (Access& store : kernel.stores) along_groups(store, block_step, group_step(form));
      kernels.push_back(std::move(kernel));
    });
  }
  return kernels;
}

}  // namespace nixie::cuda
