// Splits products from their stages, packs filters; what lowerings ask of kernels.
#include "nixie/backends/cuda/rewrite/lowering.h"

#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/families/hopper_conv.h"
#include "nixie/backends/cuda/families/matmul.h"
#include "nixie/backends/cuda/families/max_pool.h"
#include "nixie/backends/cuda/families/outer_product.h"
#include "nixie/core/passes/memory.h"

namespace nixie::cuda {

int add_slot(Plan& plan, const std::string& name, Dtype dtype, const Shape& shape, const Strides& strides) {
  plan.slots.push_back({.name = name, .dtype = dtype, .shape = shape, .strides = strides});
  return static_cast<int>(plan.slots.size()) - 1;
}

bool reads(const Kernel& kernel, int slot) {
  const std::vector<int> slots = slots_read(kernel);
  return std::count(slots.begin(), slots.end(), slot) > 0;
}
bool writes(const Kernel& kernel, int slot) {
  const std::vector<int> slots = slots_written(kernel);
  return std::count(slots.begin(), slots.end(), slot) > 0;
}
bool touches(const Kernel& kernel, int slot) { return reads(kernel, slot) || writes(kernel, slot); }

std::vector<std::size_t> readers_of(const Plan& plan, int slot) {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k)
    if (reads(plan.kernels[k], slot)) found.push_back(k);
  return found;
}
std::vector<std::size_t> writers_of(const Plan& plan, int slot) {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k)
    if (writes(plan.kernels[k], slot)) found.push_back(k);
  return found;
}

bool all_f32(const Plan& plan, const Head& head) {
  return head.dtype == Dtype::f32 &&
         std::all_of(head.operands.begin(), head.operands.end(), [&](const Operand& operand) {
           return plan.slots[static_cast<std::size_t>(operand.slot)].dtype == Dtype::f32;
         });
}

std::pair<Kernel, Kernel> split_head(Plan& plan, const Kernel& kernel, const Strides& strides,
                                     const std::string& label) {
  const Dtype dtype = compute_dtype(kernel.head->dtype);
  const int slot = add_slot(plan, label, dtype, kernel.domain, strides);
  Kernel alone{.label = label, .domain = kernel.domain, .head = kernel.head};
  alone.stores.push_back({.slot = slot, .strides = strides});
  Stage stage;
  stage.body.push_back({.primitive = Primitive::head, .type = dtype});
  stage.stores.push_back({});
  alone.stages.push_back(std::move(stage));

  Kernel rest = kernel;
  rest.head.reset();
  rest.loads.push_back(alone.stores[0]);
  for (Stage& part : rest.stages)
    for (Instruction& in : part.body)
      if (in.primitive == Primitive::head) {
        in.primitive = Primitive::load;
        in.index = static_cast<int>(rest.loads.size()) - 1;
      }
  return {std::move(alone), std::move(rest)};
}

Kernel pack(Plan& plan, Operand& operand, const Strides& strides, Dtype dtype, const std::string& name) {
  const Dtype from = plan.slots[static_cast<std::size_t>(operand.slot)].dtype;
  const int slot = add_slot(plan, name, dtype, operand.shape, strides);
  Kernel copy{.label = "pack " + name, .domain = operand.shape};
  copy.loads.push_back({.slot = operand.slot, .offset = operand.offset, .strides = operand.strides});
  copy.stores.push_back({.slot = slot, .strides = strides});
  Stage stage;
  stage.body.push_back({.primitive = Primitive::load, .type = compute_dtype(from)});
  stage.stores.push_back({});
  copy.stages.push_back(std::move(stage));
  operand = {copy.stores[0].slot, 0, operand.shape, strides};
  return copy;
}

Kernel pad_images(Plan& plan, const Operand& images, const Shape& padded, std::int64_t pad) {
  const Shape& shape = images.shape;
  Access from{.slot = images.slot, .offset = images.offset - pad * images.strides[3], .strides = images.strides};
  from.inside = {{0, shape[0]}, {0, shape[1]}, {0, shape[2]}, {pad, pad + shape[3]}};
  const Strides strides = padded.channels_last();
  Kernel copy{.label = "pad images", .domain = padded, .loads = {std::move(from)}};
  copy.stores = {{.slot = add_slot(plan, "padded images", Dtype::f32, padded, strides), .strides = strides}};
  copy.stages = {{.body = {{.primitive = Primitive::load}}, .stores = {{0, 0}}}};
  return copy;
}

namespace {

// Where a convolution walks channels-last images, it wants the channels of its filter innermost too; a Variable's are
// not. The copy is small, and it waits for nothing but the last update.
std::optional<Kernel> pack_filter(Plan& plan, Kernel& kernel) {
  const auto* conv = std::get_if<Conv>(&kernel.head->op);
  if (!conv || conv->role == ConvRole::filter_grad) return {};
  const Operand& images = kernel.head->operands[0];
  Operand& filter = kernel.head->operands[1];
  const Shape shape = filter.shape;
  if (images.strides[1] != 1 || filter.strides[1] == 1 || shape[1] == 1 || shape.size() == shape[0] * shape[1])
    return {};
  const Dtype dtype = plan.slots[static_cast<std::size_t>(filter.slot)].dtype;
  return pack(plan, filter, shape.channels_last(), dtype, "filter, channels last");
}

}  // namespace

void lower(Plan& plan, bool hopper, bool joins, bool winograd) {
  if (hopper) {
    lower_for_hopper(plan, joins, winograd);
  } else {
    lower_max_pools(plan, joins);
    if (winograd) lower_to_winograd(plan);
  }
  compute_bytes_where_read(plan);
  std::vector<Kernel> kernels;
  for (Kernel& kernel : plan.kernels) {
    if (kernel.head)
      if (std::optional<Kernel> copy = pack_filter(plan, kernel)) kernels.push_back(*std::move(copy));
    const bool product = kernel.head && std::holds_alternative<Matmul>(kernel.head->op);
    if (!product || as_blas(plan, kernel) || as_outer_product(plan, kernel) ||
        (hopper && as_hopper_conv(plan, kernel))) {
      kernels.push_back(std::move(kernel));
      continue;
    }
    auto [alone, rest] = split_head(plan, kernel, kernel.domain.row_major(), "matmul");
    if (as_blas(plan, alone)) {
      kernels.push_back(std::move(alone));
      kernels.push_back(std::move(rest));
    } else {  // no library does this product: our own kernel runs the stages too
      plan.slots.pop_back();
      kernels.push_back(std::move(kernel));
    }
  }
  plan.kernels = std::move(kernels);
}

}  // namespace nixie::cuda
