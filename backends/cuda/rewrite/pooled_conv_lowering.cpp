// Joins convolutions with the 2x2 max pooling after them.
#include <optional>

#include "nixie/backends/cuda/families/first_layer.h"
#include "nixie/backends/cuda/families/hopper_halo.h"
#include "nixie/backends/cuda/families/max_pool.h"
#include "nixie/backends/cuda/rewrite/lowering.h"

namespace nixie::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The layer, where its kernel can be pooled on the way.
std::optional<HopperConv> pooling_conv(const Plan& plan, const Kernel& kernel) {
  if (const auto layer = as_first_layer(plan, kernel))
    return pools_first_layer(*layer) ? std::optional(layer->conv) : std::nullopt;
  const auto conv = as_hopper_conv(plan, kernel);
  return conv && std::holds_alternative<Conv>(kernel.head->op) && pools_halo(*conv) ? conv : std::nullopt;
}

// Whether the kernel computes no more than bias and ReLU.
bool is_plain(const Plan& plan, const Kernel& kernel) {
  const auto epilogue = bias_relu_of(kernel);
  if (!epilogue || kernel.stages[0].stores[0].access != 0 || !kernel.stores[0].inside.empty()) return false;
  if (epilogue->bias < 0) return true;
  const Access& bias = kernel.loads[at(epilogue->bias)];
  return plan.slots[at(bias.slot)].dtype == Dtype::f32 && bias.inside.empty() && bias.strides == Strides{0, 1, 0, 0};
}

// The pooling that alone reads what kernel `f` stores, and makes output and index.
std::optional<std::size_t> pooling_after(const Plan& plan, std::size_t f) {
  const std::vector<Kernel>& kernels = plan.kernels;
  const auto conv = pooling_conv(plan, kernels[f]);
  if (!conv || conv->pooled || !is_plain(plan, kernels[f])) return {};
  const Access& y = kernels[f].stores[0];
  const auto readers = readers_of(plan, y.slot);
  if (plan.slots[at(y.slot)].external || readers.size() != 1 || writers_of(plan, y.slot).size() != 1 || y.offset != 0 ||
      !is_channels_last(kernels[f].domain, y.strides, 0))
    return {};
  const auto pool = as_max_pool(plan, kernels[readers[0]]);
  if (!pool || pool->backward || !pool->extra || pool->window != std::array{2, 2} || pool->stride != pool->window ||
      pool->pad != std::array{0, 0} || pool->p != conv->p / 2 || pool->q != conv->q / 2 || pool->dtype != conv->dtype)
    return {};
  for (const Access& store : kernels[readers[0]].stores)  // written where the convolution stands, from now on
    for (std::size_t between = f; between < readers[0]; ++between)
      if (touches(kernels[between], store.slot)) return {};
  return readers[0];
}

}  // namespace

void lower_pooled_convs(Plan& plan) {
  for (std::size_t f = 0; f < plan.kernels.size(); ++f) {
    const auto pool = pooling_after(plan, f);
    if (!pool) continue;
    std::vector<Access>&stores = plan.kernels[f].stores, &pooled = plan.kernels[*pool].stores;
    stores.erase(stores.begin());
    stores.insert(stores.begin(), pooled.begin(), pooled.end());
    plan.kernels[f].label += " + max_pool + index";
    plan.kernels.erase(plan.kernels.begin() + static_cast<std::ptrdiff_t>(*pool));
  }
}

}  // namespace nixie::cuda
