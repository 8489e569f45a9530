// The steps of lowering, in order.
#include "nixie/backends/cuda/rewrite/lower.h"

#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/absorb.h"
#include "nixie/backends/settings/environment.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

void match_heads(Grouping& grouping) {
  for (const Kernel& kernel : grouping.plan.kernels)
    grouping.groups.push_back(
        {.members = {kernel}, .by = kernel.head ? take(grouping.plan, kernel, grouping.chip) : nullptr});
}

void match_others(Grouping& grouping) {
  for (Grouping::Group& group : grouping.groups)
    if (!group.by) group.by = take(grouping.plan, group.members.front(), grouping.chip);
}

void write_groups(const Grouping& grouping, Plan& plan) {
  plan.kernels.clear();
  plan.groups.clear();
  for (const Grouping::Group& from : grouping.groups) {
    const Choice& choice = from.by->choices.front();
    Group group{.reads = slots_read(choice), .writes = slots_written(choice), .implementation = from.by};
    for (const Kernel& member : from.members) {
      group.members.push_back(static_cast<int>(plan.kernels.size()));
      plan.kernels.push_back(member);
    }
    plan.groups.push_back(std::move(group));
  }
}

// Before what is chosen is traced.
void choose(Plan& plan, const Chip& chip, bool winograd) {
  merge_phases(plan, chip);
  lower_strided_input_grads(plan);
  if (winograd && chip.has_wgmma()) lower_to_winograd(plan, chip);
  split_rows(plan);
  lay_out_pools(plan);
  unfold_convs(plan, chip);

  Grouping grouping(plan, chip);
  match_heads(grouping);
  prepare_operands(grouping);
  absorb(grouping);
  fuse_splits_into_pool_grads(grouping);
  fold_byte_images(grouping);
  join_stages(grouping);
  match_others(grouping);
  bucket_collectives(grouping);
  share_launches(grouping);
  write_groups(grouping, plan);
}

}  // namespace

void lower(Plan& plan, const Chip& chip, bool winograd) {
  choose(plan, chip, winograd);
  if (is_traced(BackendTrace::families))
    for (const Group& group : plan.groups) fmt::print(stderr, "{}\n", explain(plan, group));
}

Target target_of(const Chip& chip, bool winograd) {
  const auto seconds = [chip, winograd](Plan plan) {
    choose(plan, chip, winograd);
    double sum = 0;
    for (const Group& group : plan.groups) sum += price_of(plan, group, chip).seconds;
    return sum;
  };
  return {.channels_last = true, .overlaps = true, .seconds = seconds};
}

}  // namespace nixie::cuda
