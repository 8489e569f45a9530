// Splits sorting and scans, which compute whole rows, from the stages that follow them position by position.
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"

namespace nixie::cuda {

void split_rows(Plan& plan) {
  std::vector<Kernel> kernels;
  for (Kernel& kernel : plan.kernels) {
    if (!kernel.head || !computes_rows(*kernel.head) || only_stores_head(kernel)) {
      kernels.push_back(std::move(kernel));
      continue;
    }
    auto [alone, rest] = split_head(plan, kernel, kernel.domain.row_major(), "rows");
    kernels.push_back(std::move(alone));
    kernels.push_back(std::move(rest));
  }
  plan.kernels = std::move(kernels);
}

}  // namespace nixie::cuda
