// Reads results in the layer's order.
#include "nixie/backends/cuda/rewrite/unfold/results.h"

#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/unfold/axes.h"
#include "nixie/backends/cuda/rewrite/unfold/filters.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

// Kernels with an axis as blocks of `block` of `size` units, the last perhaps smaller; the last load takes `steps`
// between blocks, in a block, and in a unit.
std::vector<Kernel> split(const std::vector<Kernel>& kernels, int axis, std::int64_t size, std::int64_t block,
                          std::int64_t unit, const Strides& steps) {
  std::vector<Kernel> all;
  for (const Kernel& kernel : kernels)
    for_equal_blocks(size, block, [&](std::int64_t first, std::int64_t blocks, std::int64_t count) {
      Kernel part = with_split_axis(every_nth(kernel, axis, first * block * unit, 1, blocks * count * unit), axis,
                                    {blocks, count, unit});
      Access& load = part.loads.back();
      load.offset = kernel.loads.back().offset + first * steps[0];
      for (int i : {0, 1, 2}) load.strides[at(axis + i)] = steps[at(i)];
      all.push_back(std::move(part));
    });
  return all;
}

// Kernels over the taps that meet each pixel of blocks; the last load reads a filter gradient over blocks.
std::vector<Kernel> of_block_pixels(const Kernel& kernel, const Form& form) {
  std::vector<Kernel> all;
  for_block_pixels(form, [&](std::array<std::int64_t, 2> pixel, std::int64_t channel) {
    Kernel part = kernel;
    for (int i : {0, 1})
      if (form.in_blocks[at(i)]) {
        const std::int64_t step = form.block_pixels(at(i)), in_blocks = kernel.loads.back().strides[at(i + 2)],
                           taps = taps_of_pixel(kernel.domain[i + 2], step, pixel[at(i)]);
        if (taps == 0) return;
        part = every_nth(std::move(part), i + 2, pixel[at(i)], step, taps);
        part.loads.back().strides[at(i + 2)] = in_blocks;
      }
    part.loads.back().offset = kernel.loads.back().offset + channel;
    all.push_back(std::move(part));
  });
  return all;
}

}  // namespace

std::vector<int> cut_axes(const Kernel& kernel, const Form& form) {
  const WindowSum& sum = form.sum;
  std::vector<int> axes;
  if (sum.gradient) {
    for (int i : {0, 1})
      if (form.in_blocks[at(i)]) axes.push_back(i + 2);
    if (sum.groups > 1 && (!form.stores_gradient() || depends_on_position(kernel))) axes.push_back(0);
    return axes;
  }
  if (sum.groups > 1 && form.gathers_results()) axes.push_back(1);
  for (int i : {0, 1})
    if (sum.phases[at(i)] > 1) axes.push_back(i + 2);
  return axes;
}

std::vector<Kernel> gathered(const Kernel& rest, const Form& form, const Access& made) {
  const WindowSum& sum = form.sum;
  const std::int64_t of_group = sum.filters / sum.together, channels = of_group / (sum.phases[0] * sum.phases[1]);
  std::vector<Kernel> kernels{rest};
  kernels[0].loads.back() = made;
  const std::array<std::int64_t, 2> phase{sum.phases[1] * channels, channels};
  for (int i : {1, 0})
    if (sum.phases[at(i)] > 1)
      kernels =
          split(kernels, i + 2, rest.domain[i + 2], sum.phases[at(i)], 1, {made.strides[at(i + 2)], phase[at(i)], 0});
  if (sum.groups > 1) kernels = split(kernels, 1, sum.groups, sum.together, channels, {form.filters, of_group, 1});
  return kernels;
}

std::vector<Kernel> gathered_gradient(const Kernel& rest, const Form& form) {
  const WindowSum& sum = form.sum;
  const std::int64_t filters = rest.domain[0] / sum.groups;
  Operand made{.shape = rest.domain.with(0, filters), .strides = form.filter_strides()};
  if (sum.turned) {
    std::swap(made.strides[0], made.strides[1]);
    for (int axis : {2, 3}) turn(made, axis);
  }
  std::vector<Kernel> kernels{rest};
  kernels[0].loads.back().offset = made.offset, kernels[0].loads.back().strides = made.strides;
  if (form.block_pixels() > 1) return of_block_pixels(kernels[0], form);
  if (sum.groups == 1) return kernels;
  return split(kernels, 0, sum.groups, sum.together, filters,
               {form.filters * form.filter_strides()[0], group_step(form), made.strides[0]});
}

Kernel folded(Kernel kernel, int made, const Form& form) {
  const ConvProblem conv = form.conv();
  const Strides memory = Shape{conv.images, conv.filters, conv.p, conv.q}.channels_last();
  const auto taps = [&](std::size_t i) { return form.axis_forms[i] == AxisForm::folded ? form.sum.axes[i].taps : 1; };
  const auto first_load = static_cast<int>(kernel.loads.size());
  for (std::int64_t r = 0; r < taps(0); ++r)
    for (std::int64_t s = 0; s < taps(1); ++s) {
      Access load{.slot = made, .strides = memory};
      load.inside = {{0, kernel.domain[0]}, {0, kernel.domain[1]}};
      const std::int64_t row = form.axis_forms[1] == AxisForm::folded ? form.taps[1] : 1;
      load.offset = (r * row + s) * form.filters;
      for (std::size_t i : {0u, 1u}) {
        const WindowAxis& axis = form.sum.axes[i];
        const bool is_folded = form.axis_forms[i] == AxisForm::folded;
        const std::int64_t first = is_folded ? (i ? s : r) * axis.dilation - axis.pad : 0;
        load.inside.push_back(
            positions_inside(is_folded ? axis.images : axis.results, first, is_folded ? axis.stride : 1, axis.results));
        load.offset += first * memory[i + 2];
        if (is_folded) load.strides[i + 2] *= axis.stride;
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
  return kernel;
}

}  // namespace nixie::cuda
