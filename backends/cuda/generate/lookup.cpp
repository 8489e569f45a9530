// Writes the operands of heads, and the heads that look elements up inside map.cuh: pooling, gather, scatter
// (gather.cuh).
#include <fmt/format.h>

#include <algorithm>

#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

bool reaches_far(const Operand& operand) {
  std::int64_t reach = 0;
  for (int axis = 0; axis < operand.shape.rank(); ++axis) reach += operand.shape[axis] * operand.strides[at(axis)];
  return reach > std::int64_t{1} << 30;
}

}  // namespace

bool index_is_wide(const BodyWriter& body, const Kernel& kernel) {
  const auto& operands = kernel.head->operands;
  return body.wide() || kernel.domain.size() > std::int64_t{1} << 30 || std::ranges::any_of(operands, reaches_far);
}

// Pointers operand0, operand1 and their types.
void add_operands(BodyWriter& body, const Plan& plan, const Head& head) {
  for (std::size_t i = 0; i < head.operands.size(); ++i) {
    const Operand& operand = head.operands[i];
    const Dtype dtype = dtype_of(plan, operand.slot);
    body.pointer(fmt::format("const {}*", type_name(dtype)), fmt::format("operand{}", i),
                 {operand.slot, operand.offset * size_of(dtype)});
  }
}

namespace {

struct Lookup {
  std::string function;  // of gather.cuh
  std::string constants;
};

Lookup pool_of(const Kernel& kernel, const Pool& pool) {
  const bool max = pool.kind == PoolKind::max, grad = pool.role == PoolRole::input_grad;
  const Operand& first = kernel.head->operands[0];
  const Shape& x = grad ? kernel.domain : first.shape;
  const Shape& y = grad ? first.shape : kernel.domain;
  const char* roles[] = {"output", "index", "input_grad", "gather"};
  return {fmt::format("{}_pool_{}", max ? "max" : "average", roles[static_cast<int>(pool.role)]),
          constant("kAxes", x.rank() - 1) + constant("kCountPad", pool.count_pad, "bool") +
              per_axis("x_size", tail(x, 1)) + per_axis("y_size", tail(y, 1)) + per_axis("window", pool.window) +
              per_axis("stride", pool.stride) + per_axis("pad", pool.pad) +
              per_axis("dilation", pool.dilation.empty() ? std::vector<int>(pool.window.size(), 1) : pool.dilation)};
}

// `size`: of the axis that indices are positions of.
Lookup indexed(const std::string& function, const Kernel& kernel, int axis, std::int64_t size) {
  const Shape& indices = kernel.head->operands[1].shape;
  return {function, constant("kAxis", axis) + constant("kIndexAxes", indices.rank()) + constant("kAxisSize", size) +
                        constant("kIndices", indices.size(), "Index") + per_axis("index_size", indices.sizes())};
}

Lookup scatter_of(const Kernel& kernel, const Scatter& op) {
  Lookup lookup = indexed("scatter", kernel, op.axis, kernel.domain[op.axis]);
  lookup.constants += fmt::format("  using Fold = {};\n", fold_name(op.kind, compute_dtype(kernel.head->dtype)));
  return lookup;
}

Lookup lookup_of(const Kernel& kernel) {
  return std::visit(overloaded{[&](const Pool& pool) { return pool_of(kernel, pool); },
                               [&](const Gather& op) {
                                 return indexed("gather", kernel, op.axis, kernel.head->operands[0].shape[op.axis]);
                               },
                               [&](const Scatter& op) { return scatter_of(kernel, op); },
                               [](const ArgSort&) -> Lookup { fail(Fault::usage, "a sorting is no lookup"); },
                               [](const Scan&) -> Lookup { fail(Fault::usage, "a scan is no lookup"); },
                               [](const Collective&) -> Lookup { fail(Fault::usage, "a collective is no lookup"); },
                               [](const Matmul&) -> Lookup { fail(Fault::usage, "a product is no lookup"); },
                               [](const Conv&) -> Lookup { fail(Fault::usage, "a convolution is no lookup"); },
                               [](const RoundedProduct&) -> Lookup { fail(Fault::usage, "a product is no lookup"); }},
                    kernel.head->op);
}

}  // namespace

bool is_product(const Head& head) {
  return std::visit(overloaded{[](const Matmul&) { return true; }, [](const Conv&) { return true; },
                               [](const RoundedProduct&) { return true; }, [](const Pool&) { return false; },
                               [](const Gather&) { return false; }, [](const Scatter&) { return false; },
                               [](const ArgSort&) { return false; }, [](const Scan&) { return false; },
                               [](const Collective&) { return false; }},
                    head.op);
}

HeadCode lookup_head(const Plan& plan, const Kernel& kernel, BodyWriter& body, const Frame& frame) {
  const Lookup lookup = lookup_of(kernel);
  const Head& head = *kernel.head;
  add_operands(body, plan, head);
  HeadCode code{.wide = index_is_wide(body, kernel)};
  const Dtype first = dtype_of(plan, head.operands[0].slot);
  code.members = fmt::format("  using Compute = {};\n", type_name(compute_dtype(first))) + lookup.constants;
  for (std::size_t i = 0; i < head.operands.size(); ++i)
    code.members += per_axis(fmt::format("operand{}_stride", i), head.operands[i].strides, "Index");
  std::string parameters, position, arguments;
  for (int axis = 0; axis < kernel.domain.rank(); ++axis) {
    const char* comma = axis ? ", " : "";
    parameters += fmt::format("{}Index i{}", comma, axis);
    position += fmt::format("{}i{}", comma, axis);
    arguments += comma + body.coordinate(axis, frame, "");
  }
  code.members += fmt::format(
      "  {0} head({1}) const {{\n    const Index position[] = {{{2}}};\n    return {3}<{0}>(*this, position);\n  }}\n",
      type_name(compute_dtype(head.dtype)), parameters, position, lookup.function);
  code.call = fmt::format("this->head({})", arguments);
  return code;
}

}  // namespace nixie::cuda
