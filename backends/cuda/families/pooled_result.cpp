// Finds bias and ReLU between a convolution and its pooling.
#include "nixie/backends/cuda/families/pooled_result.h"

#include "nixie/backends/cuda/families/pool_max.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// max(head + b, 0) as one stage with one store, or part of
// that: which load is b (-1: none), whether there is a maximum.
struct BiasRelu {
  int bias = -1;
  bool relu = false;
};

std::optional<BiasRelu> bias_relu_of(const Kernel& kernel) {
  if (kernel.stages.size() != 1 || kernel.stages[0].stores.size() != 1) return {};
  const std::vector<Instruction>& body = kernel.stages[0].body;
  BiasRelu result;
  int value = kernel.stages[0].stores[0].value;
  // The operand of a commutative instruction that is of this kind, and the other one.
  const auto split = [&](const Instruction& in, Primitive kind) -> std::optional<std::pair<int, int>> {
    for (int i : {0, 1})
      if (body[at(in.args[at(i)])].primitive == kind) return std::pair(in.args[at(i)], in.args[at(1 - i)]);
    return {};
  };
  if (body[at(value)].primitive == Primitive::max) {
    const auto parts = split(body[at(value)], Primitive::constant);
    if (!parts || body[at(parts->first)].value != 0) return {};
    result.relu = true, value = parts->second;
  }
  if (body[at(value)].primitive == Primitive::add) {
    const auto parts = split(body[at(value)], Primitive::load);
    if (!parts) return {};
    result.bias = body[at(parts->first)].index, value = parts->second;
  }
  if (body[at(value)].primitive != Primitive::head) return {};
  return result;
}

}  // namespace

std::optional<Absorption> with_pooling(const Grouping& grouping, const Choice& choice, std::size_t other,
                                       const ConvProblem& conv) {
  const Plan& plan = grouping.plan;
  const Choice* pooling = grouping.choice(other, "pool_max");
  if (choice.pooled || !pooling || !pooling->index || choice.kernel.stores.size() != 1) return {};
  const PoolProblem& pool = pool_problem_of(*pooling);
  const std::array none{0, 0}, two{2, 2};
  if (pool.backward || pool.window != two || pool.stride != two || pool.pad != none || pool.p != conv.p / 2 ||
      pool.q != conv.q / 2 || pool.dtype != conv.dtype)
    return {};
  const Access& y = choice.kernel.stores[0];
  if (grouping.only_reader(y.slot) != other || pooling->kernel.head->operands[0].slot != y.slot || y.offset != 0 ||
      !y.inside.empty() || !is_channels_last(choice.kernel.domain, y.strides, 0))
    return {};
  const std::optional<BiasRelu> epilogue = bias_relu_of(choice.kernel);
  if (!epilogue) return {};
  PooledResult result{.output = pooling->kernel.stores[0], .index = *pooling->index, .relu = epilogue->relu};
  if (epilogue->bias >= 0) {
    result.bias = choice.kernel.loads[at(epilogue->bias)];
    if (dtype_of(plan, result.bias->slot) != Dtype::f32 || !result.bias->inside.empty() ||
        result.bias->strides != Strides{0, 1, 0, 0})
      return {};
  }
  Absorption with{.choice = choice};
  with.choice.pooled = result;
  return with;
}

}  // namespace nixie::cuda
