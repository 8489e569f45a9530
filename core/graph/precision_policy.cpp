// The policies by name; core/passes/precision.h defines their effect.
#include "nixie/core/graph/precision_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace nixie {
namespace {

constexpr std::array kNames{"ieee", "fp32", "tf32", "fp16", "bf16", "fp16_pure", "bf16_pure"};

std::atomic<PrecisionPolicy> chosen = PrecisionPolicy::fp32;

}  // namespace

std::string_view to_string(PrecisionPolicy precision) { return kNames[static_cast<std::size_t>(precision)]; }

std::vector<std::string> precision_names() { return {kNames.begin(), kNames.end()}; }

PrecisionPolicy precision_named(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  check(found != kNames.end(), "precision is \"", name, "\", expected one of ",
        fmt::format("{}", fmt::join(kNames, ", ")));
  return static_cast<PrecisionPolicy>(found - kNames.begin());
}

PrecisionPolicy default_precision() { return chosen; }
void set_default_precision(PrecisionPolicy precision) { chosen = precision; }

Dtype parameter_dtype(PrecisionPolicy precision) {
  if (precision == PrecisionPolicy::fp16_pure) return Dtype::f16;
  return precision == PrecisionPolicy::bf16_pure ? Dtype::bf16 : Dtype::f32;
}

}  // namespace nixie
