// Writes filters: each group's, or each phase's, to its place.
#include "nixie/backends/cuda/rewrite/unfold/filters.h"

#include <algorithm>

#include "nixie/backends/cuda/generate/instruction_builder.h"
#include "nixie/backends/cuda/rewrite/unfold/axes.h"
#include "nixie/core/base/integer_math.h"

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

// Parts from `first` on of a group's filters over [filters, channels, taps].
Kernel copy_of(const Form& form, const Layer& layer, int slot, const Shape& domain, std::size_t first) {
  Kernel kernel{.label = "unfold filters", .domain = domain};
  InstructionBuilder code;
  Stage stage;
  const Strides to = form.filter_strides();
  for (std::size_t i = first; i < std::min(first + kPartsAtOnce, layer.parts.size()); ++i) {
    const FilterPart& part = layer.parts[i];
    const auto place = static_cast<int>(kernel.loads.size());
    kernel.loads.push_back(part.load);
    kernel.loads.back().inside = {{0, layer.part_shape[0]}, {0, layer.part_shape[1]}};
    for (int axis : {0, 1}) kernel.loads.back().inside.push_back(part.taps[at(axis)]);
    kernel.stores.push_back({.slot = slot, .offset = part.filter * to[0], .strides = to});
    stage.stores.push_back({code.load(place), place});
  }
  stage.body = std::move(code.body);
  kernel.stages = {std::move(stage)};
  return kernel;
}

}  // namespace

std::int64_t group_step(const Form& form) {
  return form.sum.filters / form.sum.together * form.filter_strides()[0] + form.sum.channels / form.sum.together;
}

std::vector<Kernel> filter_copies(const Form& form, const Layer& layer, int slot) {
  const WindowSum& sum = form.sum;
  const std::int64_t size = form.filter_shape().size();
  std::vector<Kernel> kernels;
  if (sum.groups == 1) {
    const bool whole = layer.parts.size() == 1;
    if (!whole && form.filters != sum.filters) kernels.push_back(zeros(slot, size));
    const Shape domain{whole ? form.filters : layer.part_shape[0], form.channels, form.taps[0], form.taps[1]};
    for (std::size_t i = 0; i < layer.parts.size(); i += kPartsAtOnce)
      kernels.push_back(copy_of(form, layer, slot, domain, i));
    return kernels;
  }
  if (sum.together > 1 || form.channels != sum.channels || form.filters != sum.filters)
    kernels.push_back(zeros(slot, size));
  const Shape domain{layer.part_shape[0], layer.part_shape[1], form.taps[0], form.taps[1]};
  const std::int64_t block_step = form.filters * form.filter_strides()[0];
  for (std::size_t i = 0; i < layer.parts.size(); i += kPartsAtOnce) {
    const Kernel one = copy_of(form, layer, slot, domain, i);
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
