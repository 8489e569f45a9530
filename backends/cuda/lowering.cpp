// Splits products from their stages; packs filters.
#include "backends/cuda/lowering.h"

#include <optional>

#include "backends/cuda/matmul.h"

namespace nixie::cuda {
namespace {

// The product alone, into a new slot of the type it is accumulated in.
Kernel product_of(Plan& plan, const Kernel& kernel) {
  const Dtype dtype = compute_dtype(kernel.head->dtype);
  plan.slots.push_back(
      {.name = "product", .dtype = dtype, .shape = kernel.domain, .strides = kernel.domain.row_major()});
  Kernel product{.label = "matmul", .domain = kernel.domain, .head = kernel.head};
  product.stores.push_back({.slot = static_cast<int>(plan.slots.size()) - 1, .strides = kernel.domain.row_major()});
  Stage stage;
  stage.body.push_back({.primitive = Primitive::head, .type = dtype});
  stage.stores.push_back({});
  product.stages.push_back(std::move(stage));
  return product;
}

// The stages, reading the product from memory.
Kernel rest_of(const Kernel& kernel, const Access& product) {
  Kernel rest = kernel;
  rest.head.reset();
  rest.loads.push_back(product);
  for (Stage& stage : rest.stages)
    for (Instruction& in : stage.body)
      if (in.primitive == Primitive::head) {
        in.primitive = Primitive::load;
        in.index = static_cast<int>(rest.loads.size()) - 1;
      }
  return rest;
}

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
  Strides packed(static_cast<std::size_t>(shape.rank()), 1);
  std::int64_t stride = shape[1];
  for (int axis = shape.rank() - 1; axis > 1; stride *= shape[axis--]) packed[static_cast<std::size_t>(axis)] = stride;
  packed[0] = stride;
  const Dtype dtype = plan.slots[static_cast<std::size_t>(filter.slot)].dtype;
  plan.slots.push_back({.name = "filter, channels last", .dtype = dtype, .shape = shape, .strides = packed});
  Kernel copy{.label = "pack filter", .domain = shape};
  copy.loads.push_back({.slot = filter.slot, .offset = filter.offset, .strides = filter.strides});
  copy.stores.push_back({.slot = static_cast<int>(plan.slots.size()) - 1, .strides = packed});
  Stage stage;
  stage.body.push_back({.primitive = Primitive::load, .type = compute_dtype(dtype)});
  stage.stores.push_back({});
  copy.stages.push_back(std::move(stage));
  filter = {copy.stores[0].slot, 0, shape, packed};
  return copy;
}

}  // namespace

void lower(Plan& plan) {
  std::vector<Kernel> kernels;
  for (Kernel& kernel : plan.kernels) {
    if (kernel.head)
      if (std::optional<Kernel> copy = pack_filter(plan, kernel)) kernels.push_back(*std::move(copy));
    const bool product = kernel.head && std::holds_alternative<Matmul>(kernel.head->op);
    if (!product || as_blas(plan, kernel)) {
      kernels.push_back(std::move(kernel));
      continue;
    }
    Kernel alone = product_of(plan, kernel);
    if (as_blas(plan, alone)) {
      Kernel rest = rest_of(kernel, alone.stores[0]);
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
