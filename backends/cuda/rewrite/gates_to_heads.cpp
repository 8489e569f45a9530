// Moves elementwise work from a kernel that sums its result into the kernel whose head computed the operand.
//
// The fuser keeps a ReLU's gate with the bias gradient that sums it, as kernels with heads do not reduce.
#include <algorithm>

#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// The store of a slot, if it is the only one and in the kernel's last stage.
Store* store_of(Kernel& kernel, int slot) {
  Store* found = nullptr;
  for (Stage& stage : kernel.stages)
    for (Store& store : stage.stores)
      if (kernel.stores[at(store.access)].slot == slot) {
        if (found || &stage != &kernel.stages.back() || !kernel.stores[at(store.access)].inside.empty()) return nullptr;
        found = &store;
      }
  return found;
}

// The kernel before `k` whose head makes what load `load` of kernel `k` reads, if no other kernel reads it and
// everything else that kernel `k` reads is there by then.
Kernel* maker_of(Plan& plan, std::size_t k, int load) {
  std::vector<Kernel>& kernels = plan.kernels;
  const Access& read = kernels[k].loads[at(load)];
  if (plan.slots[at(read.slot)].external || !read.inside.empty()) return nullptr;
  std::size_t maker = k;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (writes(kernels[i], read.slot)) {
      if (maker != k || i > k) return nullptr;
      maker = i;
    }
    if (i != k && reads(kernels[i], read.slot)) return nullptr;
  }
  if (maker == k || !kernels[maker].head || kernels[maker].domain != kernels[k].domain) return nullptr;
  const Store* store = store_of(kernels[maker], read.slot);
  if (!store) return nullptr;
  const Access& written = kernels[maker].stores[at(store->access)];
  if (written.strides != read.strides || written.offset != read.offset) return nullptr;
  for (std::size_t i = maker; i < k; ++i)
    for (const Access& other : kernels[k].loads)
      if (other.slot != read.slot && writes(kernels[i], other.slot)) return nullptr;
  return &kernels[maker];
}

// Moves the elementwise part of a reducing kernel into the kernel whose head it works on; the reduction then reads what
// is stored anyway.
void move_to_head(Kernel& kernel, int load, Kernel& maker) {
  Stage &full = kernel.stages[0], &stage = maker.stages.back();
  Store& store = *store_of(maker, kernel.loads[at(load)].slot);
  const int loads = static_cast<int>(maker.loads.size()), value = store.value;
  maker.loads.insert(maker.loads.end(), kernel.loads.begin(), kernel.loads.end());
  maker.loads.erase(maker.loads.begin() + loads + load);
  std::vector<int> moved;  // where each register of the kernel went
  for (Instruction in : full.body) {
    if (in.primitive == Primitive::load && in.index == load && in.type == stage.body[at(value)].type) {
      moved.push_back(value);
      continue;
    }
    if (in.primitive == Primitive::load) in.index += loads - (in.index > load);
    for (int& arg : in.args)
      if (arg >= 0) arg = moved[at(arg)];
    moved.push_back(static_cast<int>(stage.body.size()));
    stage.body.push_back(in);
  }
  const int gone = full.stores[0].access;
  const Access result = kernel.stores[at(gone)];
  const Dtype type = full.body[at(full.stores[0].value)].type;
  store.value = moved[at(full.stores[0].value)];
  maker.stores[at(store.access)] = result;
  kernel.loads = {result};
  kernel.stores.erase(kernel.stores.begin() + gone);
  for (Store& later : kernel.stages[1].stores) later.access -= later.access > gone;
  full.body = {{.primitive = Primitive::load, .type = type}};
  full.stores.clear();
  full.reductions[0].value = 0;
  const std::size_t last = kernel.label.rfind(" + ");  // "less + mul + sum"
  maker.label += " + " + kernel.label.substr(0, last);
  kernel.label = kernel.label.substr(last == std::string::npos ? 0 : last + 3);
}

}  // namespace

void move_gates_to_heads(Plan& plan) {
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    Kernel& kernel = plan.kernels[k];
    if (kernel.head || kernel.reduced.empty() || kernel.stages.size() != 2 || kernel.stages[1].full) continue;
    const Stage &full = kernel.stages[0], &kept = kernel.stages[1];
    const bool loads_later = std::any_of(kept.body.begin(), kept.body.end(),
                                         [](const Instruction& in) { return in.primitive == Primitive::load; });
    const bool computes = std::any_of(full.body.begin(), full.body.end(),
                                      [](const Instruction& in) { return in.primitive != Primitive::load; });
    if (full.stores.size() != 1 || full.reductions.size() != 1 || !full.carries.empty() || loads_later || !computes ||
        full.reductions[0].value != full.stores[0].value)
      continue;
    for (int load = 0; load < static_cast<int>(kernel.loads.size()); ++load)
      if (Kernel* maker = maker_of(plan, k, load)) {
        move_to_head(kernel, load, *maker);
        break;
      }
  }
}

}  // namespace nixie::cuda
