// Plans memory for smaller batches.
#include "nixie/core/passes/plan_too_large.h"

#include <algorithm>
#include <set>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/passes/memory.h"

namespace nixie {
namespace {

std::int64_t arena_bytes(Plan plan, std::int64_t smaller) {
  for (Slot& slot : plan.slots)
    if (slot.shape.rank() > 0 && slot.shape[0] == plan.batch) slot.shape = slot.shape.with(0, smaller);
  plan_memory(plan);
  return plan.arena_bytes;
}

}  // namespace

std::int64_t largest_batch(const Plan& plan, const BytesOfBatch& scratch, std::int64_t free_bytes) {
  std::int64_t fits = 0, too_large = plan.batch;
  while (fits + 1 < too_large) {
    const std::int64_t middle = fits + (too_large - fits) / 2;
    const std::int64_t wanted = arena_bytes(plan, middle) + scratch(middle);
    (wanted <= free_bytes ? fits : too_large) = middle;
  }
  return fits;
}

PlanTooLarge::PlanTooLarge(const std::string& backend, const Plan& plan, const BytesOfBatch& scratch,
                           std::int64_t free_bytes)
    : PlanTooLarge(report(backend, plan, scratch, free_bytes)) {}

PlanTooLarge PlanTooLarge::report(const std::string& backend, const Plan& plan, const BytesOfBatch& scratch,
                                  std::int64_t free_bytes) {
  std::set<int> touched;  // others take no bytes
  for (const Group& group : plan.groups)
    for (const auto* slots : {&group.reads, &group.writes}) touched.insert(slots->begin(), slots->end());
  std::vector<const Slot*> largest;
  for (int slot : touched)
    if (!plan.slots[at(slot)].external) largest.push_back(&plan.slots[at(slot)]);
  std::ranges::sort(largest, std::greater(), &Slot::size_bytes);
  const std::int64_t beside = scratch(plan.batch);
  std::string text = fmt::format("{}: out of memory: the step needs {} MiB, {} MiB are free; largest:", backend,
                                 (plan.arena_bytes + beside) >> 20, free_bytes >> 20);
  if (largest.empty() || beside > largest[0]->size_bytes())
    text += fmt::format(" scratch memory ({} MiB)", beside >> 20);
  for (std::size_t i = 0; i < std::min<std::size_t>(3, largest.size()); ++i)
    text += fmt::format(" {} {} {} ({} MiB)", largest[i]->name, largest[i]->dtype, largest[i]->shape,
                        largest[i]->size_bytes() >> 20);
  const std::int64_t fits = largest_batch(plan, scratch, free_bytes);
  const std::string advice = plan.batch == 0 ? "; use a larger device or smaller arrays"
                             : fits == 0     ? "; no batch is sure to fit, use a larger device or a smaller model"
                                             : fmt::format("; a batch of {} should fit", fits);
  return {text, advice, fits};
}

}  // namespace nixie
