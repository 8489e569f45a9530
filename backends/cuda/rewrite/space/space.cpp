// Inserts and merges spatial axes.
#include "nixie/backends/cuda/rewrite/space/space.h"

#include <algorithm>

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

constexpr int kDepth = 2;  // of [N, C, D, H, W]

// Whether steps of images are those of all their planes.
bool steps_by_planes(const Shape& shape, const Strides& strides) {
  return shape[0] == 1 || shape[kDepth] == 1 || strides[0] == shape[kDepth] * strides[kDepth];
}

Strides plane_strides(const Shape& shape, Strides strides) {
  if (shape[kDepth] > 1) strides[0] = strides[kDepth];
  strides.erase(strides.begin() + kDepth);
  return strides;
}

Shape plane_shape(const Shape& shape) {
  return {shape[0] * shape[kDepth], shape[1], shape[kDepth + 1], shape[kDepth + 2]};
}

bool is_whole(const Access& access, const Shape& domain, int axis) {
  return access.inside.empty() || access.inside[at(axis)] == std::pair(std::int64_t{0}, domain[axis]);
}

// Every head but a pooling whose windows are of one plane reads across planes.
bool stays_in_planes(const Head& head) {
  const auto* pool = std::get_if<Pool>(&head.op);
  return pool && pool->window[1] == 1 && pool->stride[1] == 1 && pool->pad[1] == 0 &&
         std::all_of(head.operands.begin(), head.operands.end(),
                     [](const Operand& operand) { return has_planes(operand); });
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

bool has_planes(const Operand& operand) {
  return operand.shape.rank() == 5 && steps_by_planes(operand.shape, operand.strides);
}

Operand over_planes(const Operand& operand) {
  return {operand.slot, operand.offset, plane_shape(operand.shape), plane_strides(operand.shape, operand.strides)};
}

bool has_planes(const Kernel& kernel) {
  const auto all = [&](const std::vector<Access>& accesses) {
    return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return steps_by_planes(kernel.domain, access.strides) && is_whole(access, kernel.domain, 0) &&
             is_whole(access, kernel.domain, kDepth);
    });
  };
  const auto reduces = [&](int axis) { return std::count(kernel.reduced.begin(), kernel.reduced.end(), axis) > 0; };
  return kernel.domain.rank() == 5 && reduces(0) == reduces(kDepth) && !tells_positions(kernel) && all(kernel.loads) &&
         all(kernel.stores) && (!kernel.head || stays_in_planes(*kernel.head));
}

Kernel over_planes(Kernel kernel) {
  const Shape domain = kernel.domain;
  kernel.domain = plane_shape(domain);
  for_accesses(kernel, [&](Access& access) {
    access.strides = plane_strides(domain, access.strides);
    if (access.inside.empty()) return;
    access.inside.erase(access.inside.begin() + kDepth);
    access.inside[0] = {0, kernel.domain[0]};
  });
  std::erase(kernel.reduced, kDepth);
  for (int& axis : kernel.reduced) axis -= axis > kDepth;
  if (!kernel.head) return kernel;
  for (Operand& operand : kernel.head->operands) operand = over_planes(operand);
  if (auto* pool = std::get_if<Pool>(&kernel.head->op))
    for (std::vector<int>* sizes : {&pool->window, &pool->stride, &pool->pad, &pool->dilation})
      if (!sizes->empty()) sizes->erase(sizes->begin() + 1);
  return kernel;
}

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
