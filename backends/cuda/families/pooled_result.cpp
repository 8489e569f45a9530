// Finds bias and ReLU between a convolution and its pooling.
#include "nixie/backends/cuda/families/pooled_result.h"

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {

std::optional<BiasRelu> bias_relu_of(const Kernel& kernel) {
  if (kernel.stages.size() != 1 || kernel.stages[0].stores.size() != 1) return {};
  const std::vector<Instruction>& body = kernel.stages[0].body;
  const auto is = [&](int reg, Primitive primitive) { return body[at(reg)].primitive == primitive; };
  BiasRelu result;
  int reg = kernel.stages[0].stores[0].value;
  // Takes off an operation with a second argument that `other` accepts; true if there is one.
  const auto strip = [&](Primitive primitive, auto other) {
    if (!is(reg, primitive)) return false;
    for (std::size_t i : {0u, 1u})
      if (const int second = body[at(reg)].args[1 - i]; other(second)) {
        reg = body[at(reg)].args[i];
        result.instructions += 2;
        return true;
      }
    return false;
  };
  result.relu =
      strip(Primitive::max, [&](int second) { return is(second, Primitive::constant) && body[at(second)].value == 0; });
  strip(Primitive::add, [&](int second) {
    if (is(second, Primitive::load)) result.bias = body[at(second)].index;
    return result.bias.has_value();
  });
  return is(reg, Primitive::head) ? std::optional(result) : std::nullopt;
}

bool pools_by_two(const PoolProblem& pool, const ConvProblem& conv) {
  const std::array none{0, 0}, two{2, 2};
  return pool.window == two && pool.stride == two && pool.pad == none && pool.p == conv.p / 2 && pool.q == conv.q / 2 &&
         pool.dtype == conv.dtype;
}

std::optional<Absorption> with_pooling(const Grouping& grouping, const Choice& choice, std::size_t other,
                                       const ConvProblem& conv) {
  const Plan& plan = grouping.plan;
  const Choice* pooling = grouping.choice(other, "pool_max");
  if (choice.pooled || !pooling || !pooling->index || choice.kernel.stores.size() != 1) return {};
  const PoolProblem& pool = pool_problem_of(*pooling);
  if (pool.backward || !pools_by_two(pool, conv)) return {};
  const Access& y = choice.kernel.stores[0];
  if (grouping.only_reader(y.slot) != other || pooling->kernel.head->operands[0].slot != y.slot || y.offset != 0 ||
      !y.inside.empty() || !is_channels_last(choice.kernel.domain, y.strides, 0))
    return {};
  const std::optional<BiasRelu> epilogue = bias_relu_of(choice.kernel);
  if (!epilogue) return {};
  PooledResult result{.output = pooling->kernel.stores[0], .index = *pooling->index, .relu = epilogue->relu};
  if (epilogue->bias) {
    result.bias = choice.kernel.loads[at(*epilogue->bias)];
    if (dtype_of(plan, result.bias->slot) != Dtype::f32 || !result.bias->inside.empty() ||
        result.bias->strides != Strides{0, 1, 0, 0})
      return {};
  }
  Absorption with{.choice = choice};
  with.choice.pooled = result;
  return with;
}

}  // namespace nixie::cuda
