// Has the gradients of max poolings leave their kernels as halves, where f32 convolutions are all that reads them.
//
// A pooling's gradient is as large as the images and made of a smaller one's numbers. No position gets more of them
// than windows overlap there, so the smaller one bounds the scale; and their sum is that of what the windows pass on.
#include <algorithm>

#include "nixie/backends/cuda/families/max_pool.h"
#include "nixie/backends/cuda/rewrite/lowering.h"
#include "nixie/core/passes/memory.h"

namespace nixie::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The kernels that read a pooling's gradient, by what they do with it.
struct Readers {
  std::size_t scale = 0, fill = 0;
  std::vector<std::size_t> sums = {};
};

// All readers, if they are one scale, one filling of planes by it, and sums over images and pixels.
std::optional<Readers> gradient_readers(const Plan& plan, std::size_t pool, const Operand& gradient) {
  Readers found;
  for (std::size_t k = pool + 1; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    if (!reads(kernel, gradient.slot)) continue;
    const bool whole = !kernel.head && !kernel.loads.empty() && kernel.domain == gradient.shape &&
                       kernel.loads[0].slot == gradient.slot && kernel.loads[0].offset == gradient.offset &&
                       kernel.loads[0].strides == gradient.strides && kernel.loads[0].inside.empty();
    if (whole && is_half_scale(kernel) && !found.scale)
      found.scale = k;
    else if (whole && found.scale && !found.fill && kernel.reduced.empty() && kernel.loads.size() == 2 &&
             kernel.loads[1].slot == plan.kernels[found.scale].stores[0].slot)
      found.fill = k;
    else if (stored_channel_sum(plan, kernel, gradient))
      found.sums.push_back(k);
    else
      return {};
  }
  return found.fill ? std::optional(found) : std::nullopt;
}

// The gradient of a pooling that nothing but its one store follows; its operands lie still from then on.
std::optional<Operand> only_gradient(const Plan& plan, std::size_t pool) {
  const Kernel& kernel = plan.kernels[pool];
  const auto sizes = as_max_pool(plan, kernel);
  if (!sizes || !sizes->backward || sizes->dtype != Dtype::f32 || kernel.stages.size() != 1 ||
      kernel.stages[0].body.size() != 1 || kernel.stores.size() != 1)
    return {};
  const Access& store = kernel.stores[0];
  if (plan.slots[at(store.slot)].external || !store.inside.empty()) return {};
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    if (k != pool && writes(plan.kernels[k], store.slot)) return {};
    for (const Operand& operand : kernel.head->operands)
      if (k >= pool && writes(plan.kernels[k], operand.slot)) return {};
  }
  return Operand{store.slot, store.offset, kernel.domain, store.strides};
}

Access whole(const Operand& operand) {
  return {.slot = operand.slot, .offset = operand.offset, .strides = operand.strides};
}

// The scale from what is pooled.
void bound_by_pooled(Kernel& scale, const Kernel& pool) {
  const Operand& dy = pool.head->operands[0];
  const auto& op = std::get<Pool>(pool.head->op);
  std::int64_t overlap = 1;  // windows that hold an element, at most
  for (int i : {1, 2}) overlap *= (op.window[at(i)] + op.stride[at(i)] - 1) / op.stride[at(i)];
  scale.domain = dy.shape;
  scale.loads = {whole(dy)};
  Stage& stage = scale.stages[0];
  const int value = stage.reductions[0].value, next = static_cast<int>(stage.body.size());
  stage.body.push_back({.primitive = Primitive::constant, .value = static_cast<double>(overlap)});
  stage.body.push_back({.primitive = Primitive::mul, .args = {value, next, -1}});
  stage.reductions[0].value = next + 1;
}

// The sum over what the windows pass on: dy, or dy where the pooling's output is above zero.
void sum_pooled(Kernel& sum, const Kernel& pool) {
  const std::vector<Operand>& operands = pool.head->operands;
  sum.domain = operands[0].shape;
  sum.loads = {whole(operands[0])};
  if (operands.size() < 3) return;
  sum.loads.push_back(whole(operands[2]));
  Stage& stage = sum.stages[0];
  stage.body = {{.primitive = Primitive::load},
                {.primitive = Primitive::load, .index = 1},
                {.primitive = Primitive::constant},
                {.primitive = Primitive::less, .args = {2, 1, -1}},
                {.primitive = Primitive::mul, .args = {0, 3, -1}}};
  stage.reductions[0].value = 4;
}

// The pooling's kernel stores the planes in place of the gradient.
void store_planes(Kernel& pool, const Kernel& fill) {
  Stage& stage = pool.stages[0];
  pool.loads.push_back(fill.loads[1]);
  const int scales = static_cast<int>(pool.loads.size()) - 1;
  stage.body = fill.stages[0].body;
  for (Instruction& in : stage.body)
    if (in.primitive == Primitive::load && in.index == 0)
      in = {.primitive = Primitive::head};
    else if (in.primitive == Primitive::load)
      in.index = scales;
  stage.stores = fill.stages[0].stores;
  pool.stores = fill.stores;
  pool.label += " + " + fill.label;
}

}  // namespace

void lower_half_pools(Plan& plan) {
  for (std::size_t p = 0; p < plan.kernels.size(); ++p) {
    const std::optional<Operand> gradient = only_gradient(plan, p);
    const std::optional<Readers> readers = gradient ? gradient_readers(plan, p, *gradient) : std::nullopt;
    if (!readers) continue;
    std::vector<Kernel>& kernels = plan.kernels;
    Kernel &pool = kernels[p], scale = std::move(kernels[readers->scale]);
    bound_by_pooled(scale, pool);
    for (std::size_t sum : readers->sums) sum_pooled(kernels[sum], pool);
    store_planes(pool, kernels[readers->fill]);
    kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(readers->fill));
    kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(readers->scale));
    kernels.insert(kernels.begin() + static_cast<std::ptrdiff_t>(p), std::move(scale));
    ++p;
  }
}

}  // namespace nixie::cuda
