// Slots that several groups touch become externals of each of them.
#include "nixie/backends/cut_plan.h"

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/memory.h"

namespace nixie {
namespace {

// A slot's place in an arena.
class Part final : public Buffer {
 public:
  Part(std::shared_ptr<Buffer> arena, std::int64_t offset, std::int64_t size_bytes)
      : Buffer(size_bytes), arena_(std::move(arena)), offset_(offset) {}
  void* address() override { return static_cast<char*>(arena_->address()) + offset_; }

 private:
  std::shared_ptr<Buffer> arena_;
  std::int64_t offset_;
};

// For each slot, how many groups touch it, as they run or in their members.
std::vector<int> uses_of(const Plan& plan, const std::vector<Group>& groups) {
  std::vector<int> uses(plan.slots.size(), 0);
  for (const Group& group : groups) {
    std::vector<bool> touched(plan.slots.size());
    const auto touch = [&](const std::vector<int>& slots) {
      for (int slot : slots) touched[at(slot)] = true;
    };
    touch(group.reads), touch(group.writes);
    for (int k : group.members) touch(slots_read(plan.kernels[at(k)])), touch(slots_written(plan.kernels[at(k)]));
    for (std::size_t s = 0; s < uses.size(); ++s) uses[s] += touched[s];
  }
  return uses;
}

PlanPiece cut(const Plan& plan, std::size_t index, const std::vector<int>& uses, bool replays_members) {
  const Group& group = plan.groups[index];
  PlanPiece piece;
  piece.name = fmt::format("group {} \"{}\"", index, label_of(plan, group));
  if (group.implementation) piece.name += " by " + group.implementation->name();
  piece.plan.slots = plan.slots;
  piece.plan.scalars = plan.scalars;
  piece.plan.groups = {group};
  piece.plan.groups[0].members.clear();
  std::vector<bool> by_group(plan.slots.size());  // written
  for (int slot : group.writes) by_group[at(slot)] = true;
  for (int k : group.members) {
    piece.plan.groups[0].members.push_back(static_cast<int>(piece.plan.kernels.size()));
    piece.plan.kernels.push_back(plan.kernels[at(k)]);
  }
  const std::vector<int> own_uses = uses_of(plan, {group});
  for (std::size_t s = 0; s < plan.slots.size(); ++s) {
    Slot& slot = piece.plan.slots[s];
    slot.external = own_uses[s] > 0 && (slot.external || uses[s] > 1 || by_group[s]);
    if (slot.external) piece.plan.externals.push_back(static_cast<int>(s));
  }
  plan_memory(piece.plan, {.replays_members = replays_members});
  return piece;
}

}  // namespace

std::vector<PlanPiece> cut_plan(const Plan& plan, bool replays_members) {
  const std::vector<int> uses = uses_of(plan, plan.groups);
  std::vector<PlanPiece> pieces;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) pieces.push_back(cut(plan, g, uses, replays_members));
  return pieces;
}

PieceMemory::PieceMemory(const Plan& plan, Backend& backend) : externals_(plan.externals) {
  const std::shared_ptr<Buffer> arena = backend.allocate(plan.arena_bytes);
  for (const Slot& slot : plan.slots)
    buffers_.push_back(slot.external ? nullptr : std::make_shared<Part>(arena, slot.offset, slot.size_bytes()));
}

void PieceMemory::bind(std::span<const std::shared_ptr<Buffer>> externals) {
  check(externals.size() == externals_.size(), externals.size(), " buffers for a plan of ", externals_.size(),
        " external slots");
  for (std::size_t i = 0; i < externals.size(); ++i) buffers_[at(externals_[i])] = externals[i];
}

std::vector<std::shared_ptr<Buffer>> PieceMemory::of(const PlanPiece& piece) const {
  std::vector<std::shared_ptr<Buffer>> bound;
  for (int slot : piece.plan.externals) bound.push_back(buffers_[at(slot)]);
  return bound;
}

}  // namespace nixie
