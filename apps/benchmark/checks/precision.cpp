// The traits of each precision.
#include "nixie/apps/benchmark/checks/precision.h"

namespace nixie::benchmark {
namespace {

// nervanagpu's bounds of its GEMM grid: 0.005 % for fp32, 0.7 % for fp16. tf32 keeps as many bits of its operands as
// fp16, bf16 three fewer.
constexpr double kBound = 5e-5, kHalfBound = 7e-3, kBfloatBound = 5.6e-2;

// Sums are in floats. Products of f32 may be made of two halves with 22 bits, or in Winograd's tiles; tf32 cuts
// operands off after 10 bits.
constexpr double kFloat = 0x1p-24;
constexpr Rounding kOfFloats{.operand = 0x1p-22, .accumulator = kFloat, .result = kFloat};
constexpr Rounding kOfTensorFloats{.operand = 0x1p-10, .accumulator = kFloat, .result = kFloat, .product = kFloat};
constexpr Rounding kOfHalves{
    .operand = 0x1p-11, .accumulator = kFloat, .result = 0x1p-11, .smallest = 0x1p-25, .product = kFloat};
constexpr Rounding kOfBfloats{.operand = 0x1p-8, .accumulator = kFloat, .result = 0x1p-8, .product = kFloat};

}  // namespace

PrecisionTraits precision_named(const std::string& name) {
  const PrecisionPolicy policy = nixie::precision_named(name);
  switch (policy) {
    case PrecisionPolicy::ieee:
    case PrecisionPolicy::fp32:
      break;
    case PrecisionPolicy::tf32:
      return {name, policy, "tfloat32", Dtype::f32, Dtype::f32, kHalfBound, kOfTensorFloats};
    case PrecisionPolicy::fp16:
    case PrecisionPolicy::fp16_pure:
      return {name, policy, "float16", Dtype::f16, Dtype::f16, kHalfBound, kOfHalves};
    case PrecisionPolicy::bf16:
    case PrecisionPolicy::bf16_pure:
      return {name, policy, "bfloat16", Dtype::bf16, Dtype::bf16, kBfloatBound, kOfBfloats};
  }
  return {name, policy, "float32", Dtype::f32, Dtype::f32, kBound, kOfFloats};
}

}  // namespace nixie::benchmark
