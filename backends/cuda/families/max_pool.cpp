// Recognises max poolings, joins what belongs together, and writes the programs around pool_max.cuh.
#include "nixie/backends/cuda/families/max_pool.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/families/hopper_conv.h"
#include "nixie/backends/cuda/rewrite/lowering.h"
#include "nixie/core/passes/memory.h"

namespace nixie::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

const Pool* pool_of(const Kernel& kernel, PoolRole role) {
  const auto* pool = kernel.head ? std::get_if<Pool>(&kernel.head->op) : nullptr;
  return pool && pool->kind == PoolKind::max && pool->role == role ? pool : nullptr;
}

bool same_windows(const Pool& a, const Pool& b) {
  return a.window == b.window && a.stride == b.stride && a.pad == b.pad;
}

// A kernel that only stores what its head computes, channels-last and in this type.
bool only_stores(const Plan& plan, const Kernel& kernel, Dtype dtype) {
  if (!kernel.loads.empty() || kernel.stages.size() != 1 || kernel.stores.empty()) return false;
  const Stage& stage = kernel.stages[0];
  const Access& to = kernel.stores[0];
  return stage.body.size() == 1 && stage.body[0].primitive == Primitive::head && stage.stores.size() == 1 &&
         stage.stores[0].access == 0 && to.inside.empty() && plan.slots[at(to.slot)].dtype == dtype &&
         is_channels_last(kernel.domain, to.strides, to.offset);
}

bool reads_whole(const Operand& operand, const Access& access) {
  return access.slot == operand.slot && access.offset == operand.offset && access.inside.empty() &&
         is_channels_last(operand.shape, access.strides, access.offset) &&
         is_channels_last(operand.shape, operand.strides, operand.offset);
}

// The kernel that makes the index of the pooling whose output `kernels[p]` makes, if no one needs it in between.
std::optional<std::size_t> index_kernel(const Plan& plan, std::size_t p) {
  const std::vector<Kernel>& kernels = plan.kernels;
  const Pool* output = pool_of(kernels[p], PoolRole::output);
  for (std::size_t i = p + 1; i < kernels.size(); ++i) {
    const Pool* index = pool_of(kernels[i], PoolRole::index);
    if (index && same_windows(*output, *index) && only_stores(plan, kernels[i], Dtype::u8) &&
        kernels[i].head->operands[0].slot == kernels[p].head->operands[0].slot &&
        kernels[i].head->operands[0].offset == kernels[p].head->operands[0].offset) {
      const int slot = kernels[i].stores[0].slot, x = kernels[p].head->operands[0].slot;
      const auto first = kernels.begin() + static_cast<std::ptrdiff_t>(p) + 1,
                 last = kernels.begin() + static_cast<std::ptrdiff_t>(i);
      const bool free = std::none_of(
          first, last, [&](const Kernel& between) { return touches(between, slot) || writes(between, x); });
      if (free) return i;
    }
  }
  return {};
}

// g * (0 < y), where g is the head and y a load: the load, if the kernel is that and one store.
std::optional<int> gate_of(const Kernel& kernel) {
  if (kernel.loads.size() != 1 || kernel.stages.size() != 1 || kernel.stages[0].stores.size() != 1) return {};
  const std::vector<Instruction>& body = kernel.stages[0].body;
  const auto uncast = [&](int i) {
    while (body[at(i)].primitive == Primitive::cast) i = body[at(i)].args[0];
    return i;
  };
  const Instruction& product = body[at(uncast(kernel.stages[0].stores[0].value))];
  if (product.primitive != Primitive::mul || !kernel.stages[0].reductions.empty()) return {};
  for (const auto& [g, mask] : {std::pair(product.args[0], product.args[1]), {product.args[1], product.args[0]}}) {
    const Instruction& less = body[at(uncast(mask))];
    if (body[at(uncast(g))].primitive != Primitive::head || less.primitive != Primitive::less) continue;
    const Instruction &low = body[at(uncast(less.args[0]))], &high = body[at(uncast(less.args[1]))];
    if (low.primitive == Primitive::constant && low.value == 0 && high.primitive == Primitive::load) return high.index;
  }
  return {};
}

// The gradient at a position is that of the windows whose maximum it is, so the position is above zero where they are.
void gate_by_output(Plan& plan, Kernel& gradient) {
  const Pool* pool = pool_of(gradient, PoolRole::input_grad);
  if (!pool || gradient.head->operands.size() != 2) return;
  const std::optional<int> load = gate_of(gradient);
  if (!load) return;
  for (const Kernel& forward : plan.kernels) {
    const Pool* output = pool_of(forward, PoolRole::output);
    if (!output || forward.stores.size() != 2 || !same_windows(*pool, *output) || !as_max_pool(plan, forward)) continue;
    const Access& y = forward.stores[0];
    const bool overwritten = std::any_of(plan.kernels.begin(), plan.kernels.end(), [&](const Kernel& other) {
      return &other != &forward && writes(other, y.slot);
    });
    if (forward.stores[1].slot != gradient.head->operands[1].slot || overwritten ||
        !reads_whole(forward.head->operands[0], gradient.loads[at(*load)]))
      continue;
    const Kernel before = gradient;
    gradient.head->operands.push_back({y.slot, y.offset, forward.domain, forward.domain.channels_last()});
    gradient.loads.clear();
    gradient.stages[0].body = {{.primitive = Primitive::head, .type = compute_dtype(before.head->dtype)}};
    gradient.stages[0].stores[0].value = 0;
    if (!as_max_pool(plan, gradient)) gradient = before;
    return;
  }
}

// Makes a pooling fit whose result or gradient lies otherwise in memory: by a copy, which is smaller than the images.
void lay_out(Plan& plan) {
  std::vector<Kernel> kernels;
  for (Kernel& kernel : plan.kernels) {
    const bool output = pool_of(kernel, PoolRole::output), gradient = pool_of(kernel, PoolRole::input_grad);
    if ((output || gradient) && kernel.domain.rank() == 4 && !as_max_pool(plan, kernel)) {
      const std::size_t slots = plan.slots.size();
      if (output) {
        auto [alone, rest] = split_head(plan, kernel, kernel.domain.channels_last(), "max_pool");
        plan.slots.back().dtype = plan.slots[at(kernel.head->operands[0].slot)].dtype;
        if (as_max_pool(plan, alone)) {
          kernels.push_back(std::move(alone));
          kernel = std::move(rest);
        } else {
          plan.slots.resize(slots);
        }
      } else {
        const Kernel before = kernel;
        Operand& dy = kernel.head->operands[0];
        Kernel copy = pack(plan, dy, dy.shape.channels_last(), plan.slots[at(dy.slot)].dtype, "gradient");
        if (as_max_pool(plan, kernel)) {
          kernels.push_back(std::move(copy));
        } else {
          plan.slots.resize(slots);
          kernel = before;
        }
      }
    }
    kernels.push_back(std::move(kernel));
  }
  plan.kernels = std::move(kernels);
}

}  // namespace

std::optional<MaxPool> as_max_pool(const Plan& plan, const Kernel& kernel) {
  const Pool* op = pool_of(kernel, PoolRole::output);
  const bool backward = !op;
  if (backward) op = pool_of(kernel, PoolRole::input_grad);
  if (!op || kernel.domain.rank() != 4 || op->window[0] != 1 || op->stride[0] != 1 || op->pad[0] != 0) return {};
  const std::vector<Operand>& operands = kernel.head->operands;
  const Shape &x = backward ? kernel.domain : operands[0].shape, &y = backward ? operands[0].shape : kernel.domain;
  MaxPool pool{.backward = backward, .dtype = plan.slots[at(operands[0].slot)].dtype};
  if ((pool.dtype != Dtype::f16 && pool.dtype != Dtype::bf16 && pool.dtype != Dtype::f32) || x[1] % 8 != 0 ||
      x.size() == 0 || y.size() == 0)
    return {};
  if (std::max(x.size(), y.size()) > std::numeric_limits<std::int32_t>::max()) return {};
  for (const Operand& operand : operands)
    if (!is_channels_last(operand.shape, operand.strides, operand.offset)) return {};
  pool.extra = backward ? operands.size() == 3 : kernel.stores.size() == 2;
  if (backward ? plan.slots[at(operands[1].slot)].dtype != Dtype::u8 : !only_stores(plan, kernel, pool.dtype))
    return {};
  const auto size = [](const Shape& shape, int axis) { return static_cast<int>(shape[axis]); };
  pool.images = size(x, 0), pool.channels = size(x, 1), pool.height = size(x, 2), pool.width = size(x, 3);
  pool.p = size(y, 2), pool.q = size(y, 3);
  for (int i : {0, 1})
    pool.window[at(i)] = op->window[at(i) + 1], pool.stride[at(i)] = op->stride[at(i) + 1],
    pool.pad[at(i)] = op->pad[at(i) + 1];
  if (pool.window[0] * pool.window[1] > 255 || pool.stride[0] * pool.stride[1] > 9) return {};
  return pool;
}

KernelCode generate_max_pool(const Plan& plan, const Kernel& kernel, const MaxPool& pool) {
  KernelCode code;
  code.source = defines({{"POOL_IMAGES", pool.images},
                         {"POOL_C", pool.channels},
                         {"POOL_H", pool.height},
                         {"POOL_W", pool.width},
                         {"POOL_P", pool.p},
                         {"POOL_Q", pool.q},
                         {"POOL_R", pool.window[0]},
                         {"POOL_S", pool.window[1]},
                         {"POOL_STRIDE_H", pool.stride[0]},
                         {"POOL_STRIDE_W", pool.stride[1]},
                         {"POOL_PAD_H", pool.pad[0]},
                         {"POOL_PAD_W", pool.pad[1]},
                         {pool.backward ? "POOL_GATE" : "POOL_INDEX", pool.extra},
                         {"POOL_F32", pool.dtype == Dtype::f32},
                         {"NIXIE_BF16", pool.dtype == Dtype::bf16}});
  const std::vector<Operand>& operands = kernel.head->operands;
  const std::int64_t bytes = size_of(pool.dtype);
  code.variant = pool.backward && pool.extra ? "pool_max gated by output" : "pool_max";
  std::int64_t threads = std::int64_t{1} * pool.images * pool.channels / 8;
  if (pool.backward) {
    std::vector<Pointer> pointers{{"const void*", "operand0", {operands[0].slot, operands[0].offset * bytes}},
                                  {"const uint2*", "operand1", {operands[1].slot, operands[1].offset}}};
    if (pool.extra) pointers.push_back({"const void*", "operand2", {operands[2].slot, operands[2].offset * bytes}});
    PixelBody body = pixel_body(plan, kernel, pointers);
    code.source += body.text;
    code.arguments = std::move(body.arguments);
    const auto cells = [&](int size, std::size_t i) {
      return (size + pool.pad[i] + pool.stride[i] - 1) / pool.stride[i];
    };
    threads *= std::int64_t{1} * cells(pool.height, 0) * cells(pool.width, 1);
  } else {
    const Access &y = kernel.stores[0], &index = kernel.stores.back();  // of y again where there is no index
    code.arguments = {
        {operands[0].slot, operands[0].offset * bytes}, {y.slot, y.offset * bytes}, {index.slot, index.offset}};
    threads *= std::int64_t{1} * pool.p * pool.q;
  }
  code.source += "#include \"pool_max.cuh\"\n";
  code.launches.push_back(
      {.entry = pool.backward ? "pool_max_grad" : "pool_max", .blocks = (threads + 255) / 256, .threads = 256});
  return code;
}

void lower_max_pools(Plan& plan, bool joins) {
  lay_out(plan);
  if (!joins) return;
  for (std::size_t p = 0; p < plan.kernels.size(); ++p) {
    Kernel& kernel = plan.kernels[p];
    if (!pool_of(kernel, PoolRole::output) || kernel.stores.size() != 1 || !as_max_pool(plan, kernel)) continue;
    const std::optional<std::size_t> index = index_kernel(plan, p);
    if (!index) continue;
    kernel.stores.push_back(plan.kernels[*index].stores[0]);
    kernel.label += " + index";
    plan.kernels.erase(plan.kernels.begin() + static_cast<std::ptrdiff_t>(*index));
  }
  for (Kernel& kernel : plan.kernels) gate_by_output(plan, kernel);
}

}  // namespace nixie::cuda
