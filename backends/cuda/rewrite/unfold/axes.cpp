// Cuts and splits axes.
#include "nixie/backends/cuda/rewrite/unfold/axes.h"

#include <algorithm>

#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

template <class Act>
void for_accesses(Kernel& kernel, const Act& act) {
  for (Access& load : kernel.loads) act(load);
  for (Access& store : kernel.stores) act(store);
}

}  // namespace

bool can_cut(const Kernel& kernel, int axis) {
  const auto whole = [&](const Access& access) {
    return access.inside.empty() || access.inside[at(axis)] == std::pair(std::int64_t{0}, kernel.domain[axis]);
  };
  return !depends_on_position(kernel) && kernel.reduced.empty() && std::ranges::all_of(kernel.loads, whole) &&
         std::ranges::all_of(kernel.stores, whole);
}

Kernel every_nth(Kernel kernel, int axis, std::int64_t first, std::int64_t step, std::int64_t count) {
  kernel.domain = kernel.domain.with(axis, count);
  for_accesses(kernel, [&](Access& access) {
    access.offset += first * access.strides[at(axis)];
    access.strides[at(axis)] *= step;
    if (!access.inside.empty()) access.inside[at(axis)] = {0, count};
  });
  return kernel;
}

Kernel with_split_axis(Kernel kernel, int axis, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> domain(kernel.domain.sizes().begin(), kernel.domain.sizes().end());
  const auto replace = [&](auto& values, const auto& by) {
    const auto place = values.erase(values.begin() + axis);
    values.insert(place, by.begin(), by.end());
  };
  replace(domain, sizes);
  kernel.domain = Shape(domain);
  for_accesses(kernel, [&](Access& access) {
    Strides steps(sizes.size());
    std::vector<std::pair<std::int64_t, std::int64_t>> inside;
    std::int64_t step = access.strides[at(axis)];
    for (std::size_t i = sizes.size(); i-- > 0; step *= sizes[i]) steps[i] = step;
    for (const std::int64_t size : sizes) inside.emplace_back(0, size);
    replace(access.strides, steps);
    if (!access.inside.empty()) replace(access.inside, inside);
  });
  return kernel;
}

std::pair<std::int64_t, std::int64_t> positions_inside(std::int64_t size, std::int64_t first, std::int64_t step,
                                                       std::int64_t count) {
  const auto bound = [&](std::int64_t pixel) {
    return pixel <= first ? 0 : std::min(ceil_div(pixel - first, step), count);
  };
  const std::int64_t low = bound(0);
  return {low, std::max(low, bound(size))};
}

}  // namespace nixie::cuda
