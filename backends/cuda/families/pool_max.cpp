// Max pooling of channels-last halves or floats: output and index in one pass, gradient in one pass.
#include "nixie/backends/cuda/families/pool_max.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

const Pool* pool_of(const Kernel& kernel, PoolRole role) {
  const auto* pool = kernel.head ? std::get_if<Pool>(&kernel.head->op) : nullptr;
  return pool && pool->kind == PoolKind::max && pool->role == role ? pool : nullptr;
}

bool same_windows(const Pool& a, const Pool& b) {
  return a.window == b.window && a.stride == b.stride && a.pad == b.pad && a.dilation == b.dilation;
}

KernelCode generate_program(const Plan& plan, const Choice& choice) {
  const PoolProblem& pool = pool_problem_of(choice);
  const Kernel& kernel = choice.kernel;
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
                         {"POOL_F32", pool.dtype == Dtype::f32},
                         {"NIXIE_BF16", pool.dtype == Dtype::bf16}});
  const std::vector<Operand>& operands = kernel.head->operands;
  const std::int64_t bytes = size_of(pool.dtype);
  code.variant = "pool_max";
  std::int64_t threads = std::int64_t{1} * pool.images * pool.channels / 8;
  if (pool.backward) {
    std::vector<Pointer> pointers{{"const void*", "operand0", {operands[0].slot, operands[0].offset * bytes}},
                                  {"const uint2*", "operand1", {operands[1].slot, operands[1].offset}}};
    NhwcFunctor body = nhwc_functor(plan, kernel, pointers);
    code.source += body.text;
    code.arguments = std::move(body.arguments);
    const auto cells = [&](int size, std::size_t i) {
      return (size + pool.pad[i] + pool.stride[i] - 1) / pool.stride[i];
    };
    threads *= std::int64_t{1} * cells(pool.height, 0) * cells(pool.width, 1);
  } else {
    code.source += defines({{"POOL_INDEX", choice.index.has_value()}});
    const Access &y = kernel.stores[0], &index = choice.index ? *choice.index : y;
    code.arguments = {
        {operands[0].slot, operands[0].offset * bytes}, {y.slot, y.offset * bytes}, {index.slot, index.offset}};
    threads *= std::int64_t{1} * pool.p * pool.q;
  }
  code.source += "#include \"pool_max.cuh\"\n";
  code.launches.push_back(
      {.entry = pool.backward ? "pool_max_grad" : "pool_max", .blocks = (threads + 255) / 256, .threads = 256});
  return code;
}

class PoolMax final : public Family {
 public:
  std::string_view name() const override { return "pool_max"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip&) const override {
    auto found = pool_problem(plan, kernel);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    return Choice{.kernel = kernel, .sizes = std::get<PoolProblem>(found)};
  }
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    return pool_problem_of(choice).backward ? std::nullopt : with_index(grouping, choice, other);
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip&, const std::string&) const override {
    return generate_program(plan, choice);
  }

 private:
  // The kernel that makes the index of the same windows.
  static std::optional<Absorption> with_index(const Grouping& grouping, const Choice& choice, std::size_t other) {
    const std::vector<Kernel>& members = grouping.groups[other].members;
    if (choice.index || members.size() != 1) return {};
    const Pool* index = pool_of(members[0], PoolRole::index);
    const Operand& x = choice.kernel.head->operands[0];
    if (!index || !same_windows(*pool_of(choice.kernel, PoolRole::output), *index) ||
        !only_stores(grouping.plan, members[0], {Dtype::u8}) || members[0].head->operands[0].slot != x.slot ||
        members[0].head->operands[0].offset != x.offset)
      return {};
    Absorption with{.choice = choice};
    with.choice.index = members[0].stores[0];
    return with;
  }
};

}  // namespace

std::variant<PoolProblem, Refusal> pool_problem(const Plan& plan, const Kernel& kernel) {
  const Pool* op = pool_of(kernel, PoolRole::output);
  const bool backward = !op;
  if (backward) op = pool_of(kernel, PoolRole::input_grad);
  if (!op) return Refusal{"no max pooling's output or gradient"};
  if (kernel.domain.rank() != 4 || op->window[0] != 1 || op->stride[0] != 1 || op->pad[0] != 0)
    return Refusal{"no pooling over two axes of pixels"};
  if (!op->dilation.empty()) return Refusal{"a dilated window"};
  const std::vector<Operand>& operands = kernel.head->operands;
  const Shape &x = backward ? kernel.domain : operands[0].shape, &y = backward ? operands[0].shape : kernel.domain;
  PoolProblem pool{.backward = backward, .dtype = dtype_of(plan, operands[0])};
  if (pool.dtype != Dtype::f16 && pool.dtype != Dtype::bf16 && pool.dtype != Dtype::f32)
    return Refusal{fmt::format("{} images", pool.dtype)};
  if (x[1] % 8 != 0) return Refusal{fmt::format("{} channels", x[1])};
  if (x.size() == 0 || y.size() == 0) return Refusal{"no elements"};
  if (std::max(x.size(), y.size()) > std::numeric_limits<std::int32_t>::max()) return Refusal{"2^31 elements or more"};
  for (const Operand& operand : operands)
    if (!is_channels_last(operand.shape, operand.strides, operand.offset)) return Refusal{"images not channels-last"};
  if (backward && dtype_of(plan, operands[1]) != Dtype::u8) return Refusal{"an index wider than a byte"};
  if (!backward && !only_stores(plan, kernel, {pool.dtype})) return Refusal{"work on the output"};
  const auto size = [](const Shape& shape, int axis) { return static_cast<int>(shape[axis]); };
  pool.images = size(x, 0), pool.channels = size(x, 1), pool.height = size(x, 2), pool.width = size(x, 3);
  pool.p = size(y, 2), pool.q = size(y, 3);
  for (int i : {0, 1})
    pool.window[at(i)] = op->window[at(i) + 1], pool.stride[at(i)] = op->stride[at(i) + 1],
    pool.pad[at(i)] = op->pad[at(i) + 1];
  if (std::int64_t{pool.window[0]} * pool.window[1] > 255 || std::int64_t{pool.stride[0]} * pool.stride[1] > 9)
    return Refusal{"windows too large"};
  return pool;
}

const Family& pool_max() {
  static const PoolMax family;
  return family;
}

}  // namespace nixie::cuda
