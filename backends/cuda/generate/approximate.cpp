// Follows 16-bit numbers, and exps of them, from register to register.
#include "nixie/backends/cuda/generate/approximate.h"

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

bool is_16_bit(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }

}  // namespace

std::vector<bool> approximate_quotients(const Plan& plan, const Kernel& kernel, const Stage& stage) {
  struct Origin {
    bool is_16_bit = false, is_exp = false;
  };
  std::vector<Origin> origins;
  std::vector<bool> result;
  for (const Instruction& in : stage.body) {
    Origin origin;
    for (int i = 0; i < arity(in.primitive); ++i) {
      const Origin& argument = origins[at(in.args[at(i)])];
      origin.is_16_bit |= argument.is_16_bit;
      origin.is_exp |= argument.is_exp;
    }
    if (in.primitive == Primitive::load) origin.is_16_bit = is_16_bit(dtype_of(plan, kernel.loads[at(in.index)].slot));
    if (in.primitive == Primitive::head) origin.is_16_bit = is_16_bit(kernel.head->dtype);
    if (in.primitive == Primitive::exp && in.type == Dtype::f32) origin.is_exp |= origin.is_16_bit;
    result.push_back(in.primitive == Primitive::div && in.type == Dtype::f32 && origins[at(in.args[1])].is_exp);
    origins.push_back(origin);
  }
  return result;
}

}  // namespace nixie::cuda
