// Inserts and merges spatial axes.
#include "nixie/backends/cuda/rewrite/space/space.h"

#include <algorithm>
#include <array>

#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

template <class T>
void insert(std::vector<T>& values, int place, const T& value) {
  values.insert(values.begin() + place, value);
}

Shape with_axis(const Shape& shape, int axis, std::int64_t size) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  insert(sizes, axis, size);
  return Shape(sizes);
}

template <class Act>
void for_accesses(Kernel& kernel, const Act& act) {
  for (Access& load : kernel.loads) act(load);
  for (Access& store : kernel.stores) act(store);
}

// Two axes of [N, C, D, H, W] as one, in the place of the outer.
struct Merged {
  int outer, inner;
};
constexpr Merged kPlanes{0, 2}, kPixels{3, 4};

// Whether steps of the outer axis are those of all positions along the inner.
bool steps_fit(const Merged& axes, const Shape& shape, const Strides& strides) {
  return shape[axes.outer] == 1 || shape[axes.inner] == 1 ||
         strides[at(axes.outer)] == shape[axes.inner] * strides[at(axes.inner)];
}

Strides merged(const Merged& axes, const Shape& shape, Strides strides) {
  if (shape[axes.inner] > 1) strides[at(axes.outer)] = strides[at(axes.inner)];
  strides.erase(strides.begin() + axes.inner);
  return strides;
}

Shape merged(const Merged& axes, const Shape& shape) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes[at(axes.outer)] *= sizes[at(axes.inner)];
  sizes.erase(sizes.begin() + axes.inner);
  return Shape(sizes);
}

bool can_merge(const Merged& axes, const Operand& operand) {
  return operand.shape.rank() == 5 && steps_fit(axes, operand.shape, operand.strides);
}

Operand merged(const Merged& axes, const Operand& operand) {
  return {operand.slot, operand.offset, merged(axes, operand.shape), merged(axes, operand.shape, operand.strides)};
}

bool is_whole(const Access& access, const Shape& domain, int axis) {
  return access.inside.empty() || access.inside[at(axis)] == std::pair(std::int64_t{0}, domain[axis]);
}

// Every head but a pooling whose windows are of one plane reads across planes.
bool stays_in_planes(const Head& head) {
  const auto* pool = std::get_if<Pool>(&head.op);
  return pool && pool->window[1] == 1 && pool->stride[1] == 1 && pool->pad[1] == 0;
}

// A convolution whose windows have one pixel of a plane, the one above the result.
bool stays_at_pixels(const Kernel& kernel) {
  const auto* conv = std::get_if<Conv>(&kernel.head->op);
  if (!conv || conv->stride.size() != 3) return false;
  const Shape& window = conv->role == ConvRole::filter_grad ? kernel.domain : kernel.head->operands[1].shape;
  return std::ranges::all_of(std::array{1, 2}, [&](int axis) {
    return window[axis + 2] == 1 && conv->stride[at(axis)] == 1 && conv->pad[at(axis)] == 0;
  });
}

bool tells_positions(const Kernel& kernel) { return depends_on_position(kernel) || finds_positions(kernel); }

}  // namespace

Kernel with_unit_axis(Kernel kernel) {
  constexpr int axis = 2;
  kernel.domain = with_axis(kernel.domain, axis, 1);
  for_accesses(kernel, [](Access& access) {
    insert(access.strides, axis, std::int64_t{0});
    if (!access.inside.empty()) insert(access.inside, axis, {0, 1});
  });
  Axes reduced;
  for (int old : kernel.reduced) {
    if (old == axis) reduced.push_back(axis);  // sums over pixels are over both axes
    reduced.push_back(old + (old >= axis));
  }
  kernel.reduced = reduced;
  for (Stage& stage : kernel.stages)
    for (Instruction& in : stage.body)
      if (in.primitive == Primitive::coordinate && in.index >= axis) ++in.index;
  if (!kernel.head) return kernel;
  for (Operand& operand : kernel.head->operands) {
    insert(operand.strides, axis, operand.shape[axis] * operand.strides[at(axis)]);
    operand.shape = with_axis(operand.shape, axis, 1);
  }
  if (auto* conv = std::get_if<Conv>(&kernel.head->op))
    insert(conv->stride, 0, 1), insert(conv->pad, 0, 0), insert(conv->dilation, 0, 1);
  if (auto* pool = std::get_if<Pool>(&kernel.head->op)) {  // its first axis is that of channels
    insert(pool->window, 1, 1), insert(pool->stride, 1, 1), insert(pool->pad, 1, 0);
    if (!pool->dilation.empty()) insert(pool->dilation, 1, 1);
  }
  return kernel;
}

namespace {

bool can_merge(const Merged& axes, const Kernel& kernel) {
  const auto all = [&](const std::vector<Access>& accesses) {
    return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return steps_fit(axes, kernel.domain, access.strides) && is_whole(access, kernel.domain, axes.outer) &&
             is_whole(access, kernel.domain, axes.inner);
    });
  };
  const auto reduces = [&](int axis) { return std::count(kernel.reduced.begin(), kernel.reduced.end(), axis) > 0; };
  const auto fits = [&](const Operand& operand) { return can_merge(axes, operand); };
  return kernel.domain.rank() == 5 && reduces(axes.outer) == reduces(axes.inner) && !tells_positions(kernel) &&
         all(kernel.loads) && all(kernel.stores) && (!kernel.head || std::ranges::all_of(kernel.head->operands, fits));
}

// The sizes of a window lose theirs along the inner axis, which is `sizes_axis` of them.
Kernel merged(const Merged& axes, Kernel kernel, std::ptrdiff_t sizes_axis) {
  const Shape domain = kernel.domain;
  kernel.domain = merged(axes, domain);
  for_accesses(kernel, [&](Access& access) {
    access.strides = merged(axes, domain, access.strides);
    if (access.inside.empty()) return;
    access.inside.erase(access.inside.begin() + axes.inner);
    access.inside[at(axes.outer)] = {0, kernel.domain[axes.outer]};
  });
  std::erase(kernel.reduced, axes.inner);
  for (int& axis : kernel.reduced) axis -= axis > axes.inner;
  if (!kernel.head) return kernel;
  for (Operand& operand : kernel.head->operands) operand = merged(axes, operand);
  const auto drop = [&](std::vector<int>& sizes) {
    if (!sizes.empty()) sizes.erase(sizes.begin() + sizes_axis);
  };
  if (auto* pool = std::get_if<Pool>(&kernel.head->op))
    drop(pool->window), drop(pool->stride), drop(pool->pad), drop(pool->dilation);
  if (auto* conv = std::get_if<Conv>(&kernel.head->op)) drop(conv->stride), drop(conv->pad), drop(conv->dilation);
  return kernel;
}

}  // namespace

bool has_planes(const Operand& operand) { return can_merge(kPlanes, operand); }
Operand over_planes(const Operand& operand) { return merged(kPlanes, operand); }

bool has_planes(const Kernel& kernel) {
  return can_merge(kPlanes, kernel) && (!kernel.head || stays_in_planes(*kernel.head));
}
Kernel over_planes(Kernel kernel) { return merged(kPlanes, std::move(kernel), 1); }

bool has_pixels(const Kernel& kernel) {
  return can_merge(kPixels, kernel) && (!kernel.head || stays_at_pixels(kernel));
}
Kernel over_pixels(Kernel kernel) { return merged(kPixels, std::move(kernel), 2); }

void add_slots(std::set<int>& slots, const Kernel& kernel) {
  for (const std::vector<int>& some : {slots_read(kernel), slots_written(kernel)})
    slots.insert(some.begin(), some.end());
}

void change_at(Plan& plan, const std::set<int>& slots, const std::function<bool(const Kernel&)>& can,
               const std::function<Kernel(Kernel)>& change) {
  for (Kernel& kernel : plan.kernels) {
    std::set<int> own;
    add_slots(own, kernel);
    const bool meets = std::any_of(own.begin(), own.end(), [&](int slot) { return slots.contains(slot); });
    if (meets && can(kernel)) kernel = change(std::move(kernel));
  }
}

}  // namespace nixie::cuda
