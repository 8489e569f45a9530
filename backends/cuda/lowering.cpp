// Splits products from their stages.
#include "backends/cuda/lowering.h"

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

}  // namespace

void lower(Plan& plan) {
  std::vector<Kernel> kernels;
  for (Kernel& kernel : plan.kernels) {
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
