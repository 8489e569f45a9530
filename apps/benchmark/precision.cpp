// The list of precisions.
#include "apps/benchmark/precision.h"

namespace nixie::benchmark {
namespace {

// nervanagpu's bounds of its GEMM grid: 0.005 % for fp32, 0.7 % for fp16. tf32 keeps as many bits of its operands as
// fp16, bf16 three fewer.
const std::vector<PrecisionTraits>& all_precisions() {
  static const std::vector<PrecisionTraits> traits = {
      {"fp16", PrecisionPolicy::fp16, "float16", Dtype::f16, Dtype::f16, 7e-3},
      {"bf16", PrecisionPolicy::bf16, "bfloat16", Dtype::bf16, Dtype::bf16, 5.6e-2},
      {"tf32", PrecisionPolicy::tf32, "tfloat32", Dtype::f32, Dtype::f32, 7e-3},
      {"fp32", PrecisionPolicy::fp32, "float32", Dtype::f32, Dtype::f32, 5e-5},
      {"ieee", PrecisionPolicy::ieee, "float32", Dtype::f32, Dtype::f32, 5e-5},
      {"fp16_pure", PrecisionPolicy::fp16_pure, "float16", Dtype::f16, Dtype::f16, 7e-3},
  };
  return traits;
}

}  // namespace

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const PrecisionTraits& traits : all_precisions()) names.push_back(traits.name);
  return names;
}

PrecisionTraits precision_named(const std::string& name) {
  for (const PrecisionTraits& traits : all_precisions())
    if (traits.name == name) return traits;
  fail(Fault::usage, "precision ", name, " is unknown");
}

}  // namespace nixie::benchmark
