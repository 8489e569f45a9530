// Fuses the fp16 split into max-pool backward, if only f32 convolutions read the gradient.
//
// A pooling's gradient is as large as the images, and each of its elements sums a few elements of the smaller, pooled
// gradient, at most as many as windows overlap. So the pooled gradient bounds the scales and sums to the bias
// gradient.
#include <algorithm>

#include "nixie/backends/cuda/families/channel_sum.h"
#include "nixie/backends/cuda/families/pool_max.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

// The groups that read a pooling's gradient, by their work.
struct Readers {
  std::size_t scale = 0, fill = 0;
  std::vector<std::size_t> sums = {};
};

// All readers, if they are one split, that is a scale and the planes filled by it, and sums over images and pixels.
std::optional<Readers> gradient_readers(const Grouping& grouping, const Operand& gradient) {
  const auto split = std::ranges::find(grouping.splits, gradient, &Grouping::Split::from);
  if (split == grouping.splits.end()) return {};
  Readers found;
  int scales = 0, fills = 0;
  for (std::size_t reader : grouping.readers_of(gradient.slot)) {
    const Grouping::Group& group = grouping.groups[reader];
    if (grouping.writes(reader, split->scales))
      found.scale = reader, ++scales;
    else if (grouping.writes(reader, split->high.slot))
      found.fill = reader, ++fills;
    else if (!group.by && stored_channel_sum(grouping.plan, group.members.front(), gradient))
      found.sums.push_back(reader);
    else
      return {};
  }
  return scales == 1 && fills == 1 ? std::optional(found) : std::nullopt;
}

// The gradient of a pooling that nothing but its one store follows, and whose operands stay as they are.
std::optional<Operand> only_gradient(const Grouping& grouping, std::size_t pool) {
  const Choice* choice = grouping.choice(pool, "pool_max");
  if (!choice || !pool_problem_of(*choice).backward || pool_problem_of(*choice).dtype != Dtype::f32) return {};
  const Kernel& kernel = choice->kernel;
  if (kernel.stages.size() != 1 || kernel.stages[0].body.size() != 1 || kernel.stores.size() != 1) return {};
  const Access& store = kernel.stores[0];
  if (grouping.plan.slots[at(store.slot)].external || !store.inside.empty() ||
      grouping.writers_of(store.slot).size() != 1)
    return {};
  for (std::size_t g = pool; g < grouping.groups.size(); ++g)
    for (const Operand& operand : kernel.head->operands)
      if (grouping.writes(g, operand.slot)) return {};
  return Operand{store.slot, store.offset, kernel.domain, store.strides};
}

// Finds the scale from the pooled gradient, which is smaller.
void bound_by_pooled(Kernel& scale, const Kernel& pool) {
  const Operand& dy = pool.head->operands[0];
  const auto& op = std::get<Pool>(pool.head->op);
  std::int64_t overlap = 1;  // windows that hold an element, at most
  for (int i : {1, 2}) overlap *= (op.window[at(i)] + op.stride[at(i)] - 1) / op.stride[at(i)];
  scale.domain = dy.shape;
  scale.loads = {access_of(dy)};
  Stage& stage = scale.stages[0];
  const int value = stage.reductions[0].value, next = static_cast<int>(stage.body.size());
  stage.body.push_back({.primitive = Primitive::constant, .value = static_cast<double>(overlap)});
  stage.body.push_back({.primitive = Primitive::mul, .args = {value, next, -1}});
  stage.reductions[0].value = next + 1;
}

// The sum over what the windows pass on.
void sum_pooled(Kernel& sum, const Kernel& pool) {
  const Operand& dy = pool.head->operands[0];
  sum.domain = dy.shape;
  sum.loads = {access_of(dy)};
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

void fuse_splits_into_pool_grads(Grouping& grouping) {
  for (std::size_t p = 0; p < grouping.groups.size(); ++p) {
    const std::optional<Operand> gradient = only_gradient(grouping, p);
    const std::optional<Readers> readers = gradient ? gradient_readers(grouping, *gradient) : std::nullopt;
    if (!readers) continue;
    std::vector<Grouping::Group>& groups = grouping.groups;
    groups[p].by = std::make_shared<Implementers>(*groups[p].by);
    Choice& pool = groups[p].by->choices.front();
    Grouping::Group scale = std::move(groups[readers->scale]);
    bound_by_pooled(scale.members.front(), pool.kernel);
    for (std::size_t sum : readers->sums) sum_pooled(groups[sum].members.front(), pool.kernel);
    store_planes(pool.kernel, groups[readers->fill].members.front());
    groups[p].members.push_back(std::move(groups[readers->fill].members.front()));
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(std::max(readers->fill, readers->scale)));
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(std::min(readers->fill, readers->scale)));
    groups.insert(groups.begin() + static_cast<std::ptrdiff_t>(p), std::move(scale));
    ++p;
  }
}

}  // namespace nixie::cuda
