// Average pooling of channels-last halves or floats over two
// axes of pixels, and its gradient, with any work on the result.
#include "nixie/backends/cuda/families/pool_average.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

bool is_gradient(const Kernel& kernel) { return std::get<Pool>(kernel.head->op).role == PoolRole::input_grad; }

// Why the program does not compute a kernel; empty where it does.
std::string limits(const Plan& plan, const Kernel& kernel) {
  const auto* pool = kernel.head ? std::get_if<Pool>(&kernel.head->op) : nullptr;
  if (!pool || pool->kind != PoolKind::average ||
      (pool->role != PoolRole::output && pool->role != PoolRole::input_grad))
    return "no average pooling's output or gradient";
  if (kernel.domain.rank() != 4 || pool->window[0] != 1 || pool->stride[0] != 1 || pool->pad[0] != 0)
    return "no pooling over two axes of pixels";
  if (!pool->dilation.empty()) return "a dilated window";
  const Operand& operand = kernel.head->operands[0];
  const Dtype dtype = dtype_of(plan, operand);
  if (dtype != Dtype::f16 && dtype != Dtype::bf16 && dtype != Dtype::f32) return fmt::format("{} images", dtype);
  if (operand.shape[1] % 8 != 0) return fmt::format("{} channels", operand.shape[1]);
  if (operand.shape.size() == 0 || kernel.domain.size() == 0) return "no elements";
  bool pieces = operand.strides[1] == 1 && operand.offset % 8 == 0;
  std::int64_t last = 0;
  for (int axis : {0, 2, 3}) {
    const std::int64_t stride = operand.strides[at(axis)];
    pieces = pieces && (operand.shape[axis] == 1 || (stride >= 0 && stride % 8 == 0));
    last += (operand.shape[axis] - 1) * stride;
  }
  if (!pieces) return "images not channels-last";
  if (std::max(last + operand.shape[1], kernel.domain.size()) > std::numeric_limits<std::int32_t>::max())
    return "2^31 elements or more";
  return {};
}

class PoolAverage final : public Family {
 public:
  std::string_view name() const override { return "pool_average"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip&) const override {
    if (const std::string why = limits(plan, kernel); !why.empty()) return Refusal{why};
    return Choice{.kernel = kernel};
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip&, const std::string&) const override {
    const Kernel& kernel = choice.kernel;
    const auto& pool = std::get<Pool>(kernel.head->op);
    const Operand& operand = kernel.head->operands[0];
    const Shape &x = is_gradient(kernel) ? kernel.domain : operand.shape,
                &y = is_gradient(kernel) ? operand.shape : kernel.domain;
    const auto step = [&](int axis) { return operand.shape[axis] == 1 ? 0 : operand.strides[at(axis)]; };
    const Dtype dtype = dtype_of(plan, operand);
    NhwcFunctor body = nhwc_functor(
        plan, kernel,
        {{fmt::format("const {}*", type_name(dtype)), "operand0", {operand.slot, operand.offset * size_of(dtype)}}});
    KernelCode code;
    code.source = defines({{"POOL_PIXELS", kernel.domain.size() / kernel.domain[1]},
                           {"POOL_C", kernel.domain[1]},
                           {"POOL_H", x[2]},
                           {"POOL_W", x[3]},
                           {"POOL_P", y[2]},
                           {"POOL_Q", y[3]},
                           {"POOL_R", pool.window[1]},
                           {"POOL_S", pool.window[2]},
                           {"POOL_STRIDE_H", pool.stride[1]},
                           {"POOL_STRIDE_W", pool.stride[2]},
                           {"POOL_PAD_H", pool.pad[1]},
                           {"POOL_PAD_W", pool.pad[2]},
                           {"POOL_N_STEP", step(0)},
                           {"POOL_H_STEP", step(2)},
                           {"POOL_W_STEP", step(3)},
                           {"POOL_COUNT_PAD", pool.count_pad},
                           {"POOL_GRADIENT", is_gradient(kernel)}}) +
                  body.text + "#include \"pool_average.cuh\"\n";
    code.arguments = std::move(body.arguments);
    code.variant = "pool_average";
    code.launches.push_back(
        {.entry = "pool_average", .blocks = ceil_div(kernel.domain.size() / 8, 256), .threads = 256});
    return code;
  }
};

}  // namespace

const Family& pool_average() {
  static const PoolAverage family;
  return family;
}

}  // namespace nixie::cuda
