// Joins the kernels around a first layer: packed images made once; pooling fused into 3x3 layers.
#include <algorithm>

#include "nixie/backends/cuda/families/first_layer.h"
#include "nixie/backends/cuda/families/max_pool.h"
#include "nixie/backends/cuda/rewrite/lowering.h"
#include "nixie/core/passes/memory.h"

namespace nixie::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void share_packed_images(Plan& plan) {
  for (std::size_t f = 0; f < plan.kernels.size(); ++f) {
    const auto forward = as_first_layer(plan, plan.kernels[f]);
    if (!forward || forward->kind != FirstLayer::Kind::stride4 || forward->extra ||
        forward->conv.role != ConvRole::output)
      continue;
    for (std::size_t g = f + 1; g < plan.kernels.size(); ++g) {
      const auto gradient = as_first_layer(plan, plan.kernels[g]);
      if (!gradient || gradient->kind != forward->kind || gradient->extra ||
          gradient->conv.role != ConvRole::filter_grad || gradient->conv.pad != forward->conv.pad ||
          plan.kernels[f].head->operands[0] != plan.kernels[g].head->operands[1])
        continue;
      const Shape shape{packed_elements(forward->conv)};
      const int slot = add_slot(plan, "packed images", forward->conv.dtype, shape, shape.row_major());
      plan.kernels[f].stores.push_back({.slot = slot, .strides = {0, 0, 0, 0}});
      plan.kernels[g].head->operands.push_back({slot, 0, shape, shape.row_major()});
      break;
    }
  }
}

// Multiplies what kernel `k` stores in `slot` by 0 < y, where y lies as the kernel's domain does.
bool gate_store(Plan& plan, std::size_t k, int slot, const Operand& y) {
  Kernel& kernel = plan.kernels[k];
  if (kernel.domain != y.shape || !kernel.reduced.empty() || writers_of(plan, slot).size() != 1) return false;
  for (Stage& stage : kernel.stages)
    for (Store& store : stage.stores) {
      const Access& access = kernel.stores[at(store.access)];
      if (access.slot != slot || !access.inside.empty()) continue;
      const Dtype type = stage.body[at(store.value)].type;
      kernel.loads.push_back({.slot = y.slot, .offset = y.offset, .strides = y.strides});
      const int next = static_cast<int>(stage.body.size());
      stage.body.push_back(
          {.primitive = Primitive::load, .type = type, .index = static_cast<int>(kernel.loads.size()) - 1});
      stage.body.push_back({.primitive = Primitive::constant, .type = type});
      stage.body.push_back({.primitive = Primitive::less, .type = type, .args = {next + 1, next, -1}});
      stage.body.push_back({.primitive = Primitive::mul, .type = type, .args = {store.value, next + 2, -1}});
      store.value = next + 3;
      kernel.label += " + gate";
      return true;
    }
  return false;
}

struct Chain {
  std::size_t forward, pool, unpool, gradient;
};

// conv -> pool ... unpool -> filter gradient, where no one else reads what lies between.
std::optional<Chain> pooled_chain(const Plan& plan, std::size_t f) {
  const std::vector<Kernel>& kernels = plan.kernels;
  const auto layer = as_first_layer(plan, kernels[f]);
  if (!layer || layer->kind != FirstLayer::Kind::window3 || layer->extra || layer->conv.role != ConvRole::output ||
      kernels[f].stores.size() != 1)
    return {};
  const auto epilogue = bias_relu_of(kernels[f]);
  const int y = kernels[f].stores[0].slot;
  const auto pools = readers_of(plan, y);
  if (!epilogue || plan.slots[at(y)].external || pools.size() != 1) return {};
  if (epilogue->bias >= 0) {
    const Access& bias = kernels[f].loads[at(epilogue->bias)];
    if (plan.slots[at(bias.slot)].dtype != Dtype::f32 || bias.strides[1] != 1 || bias.strides[0] != 0) return {};
  }
  const auto pool = as_max_pool(plan, kernels[pools[0]]);
  if (!pool || pool->backward || !pool->extra || pool->window != std::array{2, 2} || pool->stride != pool->window ||
      pool->pad != std::array{0, 0} || pool->p != layer->conv.p / 2 || pool->q != layer->conv.q / 2)
    return {};
  const int index = kernels[pools[0]].stores[1].slot;
  const auto unpools = readers_of(plan, index);
  if (plan.slots[at(index)].external || unpools.size() != 1) return {};
  const Kernel& unpool = kernels[unpools[0]];
  const auto back = as_max_pool(plan, unpool);
  if (!back || !back->backward || back->extra != epilogue->relu || !unpool.loads.empty() || !only_stores(plan, unpool))
    return {};
  const int dy = unpool.stores[0].slot;
  const auto gradients = readers_of(plan, dy);
  if (plan.slots[at(dy)].external || gradients.size() != 1) return {};
  const auto gradient = as_first_layer(plan, kernels[gradients[0]]);
  if (!gradient || gradient->kind != FirstLayer::Kind::window3 || gradient->conv.role != ConvRole::filter_grad ||
      kernels[gradients[0]].head->operands[1] != kernels[f].head->operands[0])
    return {};
  return Chain{f, pools[0], unpools[0], gradients[0]};
}

void fuse_pooling(Plan& plan) {
  for (std::size_t f = 0; f < plan.kernels.size(); ++f) {
    const std::optional<Chain> chain = pooled_chain(plan, f);
    if (!chain) continue;
    const std::vector<Operand> unpooled = plan.kernels[chain->unpool].head->operands;  // dy, index, perhaps y
    if (unpooled.size() == 3) {
      const int dy = unpooled[0].slot;
      const auto makers = writers_of(plan, dy);
      if (plan.slots[at(dy)].external || readers_of(plan, dy).size() != 1 || makers.size() != 1 ||
          !gate_store(plan, makers[0], dy, unpooled[2]))
        continue;
    }
    Kernel &forward = plan.kernels[f], &gradient = plan.kernels[chain->gradient];
    forward.stores = plan.kernels[chain->pool].stores;
    forward.label += " + max_pool + index";
    gradient.head->operands = {unpooled[0], gradient.head->operands[1], unpooled[1]};
    gradient.label += " + max_pool_input_grad";
    for (std::size_t gone : {chain->unpool, chain->pool})  // the later one first
      plan.kernels.erase(plan.kernels.begin() + static_cast<std::ptrdiff_t>(gone));
  }
}

}  // namespace

void lower_first_layers(Plan& plan) {
  share_packed_images(plan);
  fuse_pooling(plan);
}

}  // namespace nixie::cuda
