// Lowers plans for a chip by name, and prices their groups.
#include "nixie/backends/cuda/planner.h"

#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/null/backend.h"
#include "nixie/backends/settings/environment.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie {

std::shared_ptr<Backend> make_cuda_planner(const std::string& name) {
  const cuda::Chip chip = cuda::chip_named(name);
  const bool winograd = winograd_is_allowed();
  return make_null_backend({}, {.name = "cuda", .target = cuda::target_of(chip, winograd), .lower = [=](Plan& plan) {
                                  cuda::lower(plan, chip, winograd);
                                }});
}

std::string cuda_kernel_table(const Plan& plan, const std::string& name) {
  const cuda::Chip chip = cuda::chip_named(name);
  std::string text = fmt::format("{:>9}  {:<28}operation\n", "us", "kernel");
  double sum = 0;
  int launches = 0;
  for (const Group& group : plan.groups) {
    const cuda::Price price = cuda::price_of(plan, group, chip);
    if (price.seconds == 0) continue;  // stays_in_place
    sum += price.seconds;
    ++launches;
    text += fmt::format("{:>9.1f}  {:<28}{}\n", 1e6 * price.seconds, price.program,
                        price.operation.empty() ? label_of(plan, group) : price.operation);
  }
  return text + fmt::format("{:>9.1f}  {} launches, one after another\n", 1e6 * sum, launches);
}

}  // namespace nixie
