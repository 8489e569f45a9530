// Makes plans fit Hopper's kernels: layouts of operands, filter gradients on their own, bias gradients on the way.
#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/families/conv_fp32.h"
#include "nixie/backends/cuda/families/first_layer.h"
#include "nixie/backends/cuda/families/max_pool.h"
#include "nixie/backends/cuda/rewrite/lowering.h"
#include "nixie/core/passes/memory.h"

namespace nixie::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Copies of operands, shared by the kernels that read them until the original is written again.
class Packer {
 public:
  explicit Packer(Plan& plan) : plan_(plan) {}
  void operator()(Operand& operand, Dtype dtype, std::vector<Kernel>& kernels) {
    const bool as_it_is = plan_.slots[static_cast<std::size_t>(operand.slot)].dtype == dtype;
    if (as_it_is && is_channels_last(operand.shape, operand.strides, operand.offset)) return;
    for (const auto& [original, copy] : copies_)
      if (original == operand) {
        operand = copy;
        return;
      }
    const Operand original = operand;
    kernels.push_back(pack(plan_, operand, operand.shape.channels_last(), dtype, "operand, channels last"));
    copies_.emplace_back(original, operand);
  }
  void wrote(const Kernel& kernel) {
    std::erase_if(copies_, [&](const auto& pair) { return writes(kernel, pair.first.slot); });
  }

 private:
  Plan& plan_;
  std::vector<std::pair<Operand, Operand>> copies_;
};

// Drops kernels that make nothing anyone reads.
void drop_unread(Plan& plan) {
  std::vector<int> readers(plan.slots.size(), 0);
  for (const Kernel& kernel : plan.kernels)
    for (int slot : slots_read(kernel)) ++readers[static_cast<std::size_t>(slot)];
  std::erase_if(plan.kernels, [&](const Kernel& kernel) {
    const std::vector<int> slots = slots_written(kernel);
    return std::all_of(slots.begin(), slots.end(), [&](int slot) {
      return !plan.slots[static_cast<std::size_t>(slot)].external && readers[static_cast<std::size_t>(slot)] == 0;
    });
  });
}

// Whether two kernels may run in either order.
bool independent(const Kernel& a, const Kernel& b) {
  const std::vector<int> from_a = slots_written(a), from_b = slots_written(b);
  return std::none_of(from_a.begin(), from_a.end(), [&](int slot) { return touches(b, slot); }) &&
         std::none_of(from_b.begin(), from_b.end(), [&](int slot) { return touches(a, slot); });
}

// Moves the kernels in (r, f) that touch a slot behind kernel f, if that changes nothing; gives back where f is then.
std::optional<std::size_t> move_behind(std::vector<Kernel>& kernels, std::size_t r, std::size_t f, int slot) {
  std::vector<std::size_t> order;
  std::vector<std::size_t> moved;
  for (std::size_t i = r + 1; i <= f; ++i) {
    if (i < f && touches(kernels[i], slot)) {
      moved.push_back(i);
      continue;
    }
    for (std::size_t before : moved)
      if (!independent(kernels[before], kernels[i])) return {};
    order.push_back(i);
  }
  order.insert(order.end(), moved.begin(), moved.end());
  std::vector<Kernel> reordered;
  for (std::size_t i : order) reordered.push_back(kernels[i]);
  std::move(reordered.begin(), reordered.end(), kernels.begin() + static_cast<std::ptrdiff_t>(r) + 1);
  return f - moved.size();
}

// Lets filter gradients sum the bias gradients that other kernels would read dy for.
void join_bias_gradients(Plan& plan) {
  std::vector<Kernel>& kernels = plan.kernels;
  for (std::size_t f = 0; f < kernels.size(); ++f) {
    const auto layer = as_first_layer(plan, kernels[f]);
    const auto conv = layer ? std::optional(layer->conv) : as_hopper_conv(plan, kernels[f]);
    if (!conv || conv->role != ConvRole::filter_grad || conv->bias_grad) continue;
    for (std::size_t r = 0; r < kernels.size(); ++r) {
      const Access* store = stored_channel_sum(plan, kernels[r], kernels[f].head->operands[0]);
      if (!store) continue;
      const Access sum = *store;
      if (r < f) {
        const auto now = move_behind(kernels, r, f, sum.slot);
        if (!now) continue;
        f = *now;
      } else if (std::any_of(kernels.begin() + static_cast<std::ptrdiff_t>(f) + 1,
                             kernels.begin() + static_cast<std::ptrdiff_t>(r),
                             [&](const Kernel& between) { return touches(between, sum.slot); })) {
        continue;
      }
      kernels[f].stores.push_back({.slot = sum.slot, .offset = sum.offset, .strides = {0, 0, 0, 0}});
      kernels[f].label += " + bias_grad";
      kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(r));
      f -= r < f;
      break;
    }
  }
}

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

// The kernel before `k` whose head makes what load `load` of kernel `k` reads, if nobody else reads it and everything
// else that kernel `k` reads is there by then.
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

// The fuser keeps a ReLU's gate with the bias gradient that sums it, as kernels with heads do not reduce.
void move_to_heads(Plan& plan) {
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

}  // namespace

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

void lower_for_hopper(Plan& plan, bool joins, bool winograd) {
  move_to_heads(plan);
  if (winograd) lower_to_winograd(plan, true);
  lower_max_pools(plan, joins);
  if (joins) {
    lower_to_halves(plan);
    lower_half_pools(plan);
  }
  lower_float_rows(plan);
  std::vector<Kernel> kernels;
  Packer packer(plan);
  for (Kernel& kernel : plan.kernels)
    if (const auto layer = first_layer_sizes(plan, kernel)) {
      Operand& images = kernel.head->operands[layer->conv.role == ConvRole::output ? 0 : 1];
      const Operand made = before_map(plan.kernels, images);
      const bool reads =
          joins && reads_images(plan, *layer, made) && plan.slots[at(images.slot)].dtype == layer->conv.dtype;
      if (made.body.empty() || reads) images = made;
    }
  drop_unread(plan);
  for (Kernel& kernel : plan.kernels) {
    const auto layer = first_layer_sizes(plan, kernel);
    auto conv = layer ? std::optional(layer->conv) : hopper_conv_sizes(plan, kernel);
    if (!conv) conv = float_conv_sizes(plan, kernel);
    if (conv)
      for (std::size_t i : {0u, 1u}) {
        const bool images = i == (conv->role == ConvRole::output ? 0 : 1);
        Operand& operand = kernel.head->operands[i];
        const bool floats = conv->dtype == Dtype::f32;
        if (floats && (conv->channels % 4 != 0 ||
                       reads_floats(*conv, operand, i == (conv->role == ConvRole::filter_grad ? 1 : 0))))
          continue;
        if (!images || !layer || !reads_images(plan, *layer, operand)) packer(operand, conv->dtype, kernels);
      }
    packer.wrote(kernel);
    if (layer && conv->role == ConvRole::filter_grad && !as_first_layer(plan, kernel)) {
      auto [alone, rest] = split_head(plan, kernel, kernel.domain.channels_last(), "conv_filter_grad");
      kernels.push_back(std::move(alone));
      kernels.push_back(std::move(rest));
    } else {
      kernels.push_back(std::move(kernel));
    }
  }
  plan.kernels = std::move(kernels);
  if (!joins) return;
  join_bias_gradients(plan);
  lower_first_layers(plan);
  lower_pooled_convs(plan);
}

}  // namespace nixie::cuda
