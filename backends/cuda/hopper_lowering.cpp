// Makes plans fit Hopper's kernels: layouts of operands, filter gradients on their own, bias gradients on the way.
#include <algorithm>

#include "backends/cuda/hopper_conv.h"
#include "backends/cuda/lowering.h"
#include "core/memory.h"

namespace nixie::cuda {
namespace {

bool touches(const Kernel& kernel, int slot) {
  const std::vector<int> reads = slots_read(kernel), writes = slots_written(kernel);
  return std::count(reads.begin(), reads.end(), slot) + std::count(writes.begin(), writes.end(), slot) > 0;
}

// Copies of operands, shared by the kernels that read them until the original is written again.
class Packer {
 public:
  explicit Packer(Plan& plan) : plan_(plan) {}
  void operator()(Operand& operand, std::vector<Kernel>& kernels) {
    if (is_channels_last(operand.shape, operand.strides, operand.offset)) return;
    for (const auto& [original, copy] : copies_)
      if (original.slot == operand.slot && original.offset == operand.offset && original.shape == operand.shape &&
          original.strides == operand.strides) {
        operand = copy;
        return;
      }
    const Operand original = operand;
    kernels.push_back(pack(plan_, operand, channels_last(operand.shape), "operand, channels last"));
    copies_.emplace_back(original, operand);
  }
  void wrote(const Kernel& kernel) {
    for (int slot : slots_written(kernel))
      std::erase_if(copies_, [&](const auto& pair) { return pair.first.slot == slot; });
  }

 private:
  Plan& plan_;
  std::vector<std::pair<Operand, Operand>> copies_;
};

// A sum over images and pixels of a 4-D value, stored as it is: where the sums go, if the kernel is one.
const Access* stored_channel_sum(const Plan& plan, const Kernel& kernel, const Operand& of) {
  if (kernel.head || kernel.reduced != Axes{0, 2, 3} || kernel.domain != of.shape || kernel.loads.size() != 1 ||
      kernel.stores.size() != 1 || kernel.stages.size() != 2)
    return nullptr;
  const Access &load = kernel.loads[0], &store = kernel.stores[0];
  const Stage &full = kernel.stages[0], &kept = kernel.stages[1];
  const bool reads = load.slot == of.slot && load.offset == of.offset && load.inside.empty() &&
                     is_channels_last(of.shape, load.strides, load.offset);
  const bool sums = full.full && full.body.size() == 1 && full.body[0].primitive == Primitive::load &&
                    full.stores.empty() && full.reductions.size() == 1 && full.carries.empty() &&
                    full.reductions[0].kind == ReduceKind::sum;
  const bool stores = !kept.full && kept.body.size() == 1 && kept.body[0].primitive == Primitive::carried &&
                      kept.stores.size() == 1 && kept.carries.empty() && store.inside.empty() &&
                      store.strides[1] == 1 && plan.slots[static_cast<std::size_t>(store.slot)].dtype == Dtype::f32;
  return reads && sums && stores ? &store : nullptr;
}

// Lets filter gradients sum the bias gradients that other kernels would read dy for.
void join_bias_gradients(Plan& plan) {
  std::vector<Kernel>& kernels = plan.kernels;
  for (std::size_t f = 0; f < kernels.size(); ++f) {
    const auto conv = as_hopper_conv(plan, kernels[f]);
    if (!conv || conv->role != ConvRole::filter_grad || conv->bias_grad) continue;
    for (std::size_t r = 0; r < kernels.size(); ++r) {
      const Access* store = stored_channel_sum(plan, kernels[r], kernels[f].head->operands[0]);
      if (!store) continue;
      const int slot = store->slot;
      const auto first = kernels.begin() + static_cast<std::ptrdiff_t>(std::min(f, r)) + 1,
                 last = kernels.begin() + static_cast<std::ptrdiff_t>(std::max(f, r));
      if (std::any_of(first, last, [&](const Kernel& between) { return touches(between, slot); })) continue;
      kernels[f].stores.push_back({.slot = slot, .offset = store->offset, .strides = {1, 0, 0, 0}});
      kernels[f].label += " + bias_grad";
      kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(r));
      f -= r < f;
      break;
    }
  }
}

}  // namespace

void lower_for_hopper(Plan& plan) {
  std::vector<Kernel> kernels;
  Packer packer(plan);
  for (Kernel& kernel : plan.kernels) {
    const auto conv = hopper_conv_sizes(plan, kernel);
    if (conv)
      for (Operand& operand : kernel.head->operands) packer(operand, kernels);
    packer.wrote(kernel);
    if (conv && conv->role == ConvRole::filter_grad && !as_hopper_conv(plan, kernel)) {
      auto [alone, rest] = split_head(plan, kernel, channels_last(kernel.domain), "conv_filter_grad");
      kernels.push_back(std::move(alone));
      kernels.push_back(std::move(rest));
    } else {
      kernels.push_back(std::move(kernel));
    }
  }
  plan.kernels = std::move(kernels);
  join_bias_gradients(plan);
}

}  // namespace nixie::cuda
