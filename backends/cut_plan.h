// A plan cut into plans of one group each, which run one after the other in the whole plan's memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// A group as a plan whose externals are all that others see of it. It keeps the numbers of the whole plan's slots.
struct PlanPiece {
  Plan plan;
  std::string name;  ///< its place among the groups, its members, what runs it
};

/// One piece for each group, in order. Where `replays_members`, slots that only members touch are theirs to see, too.
std::vector<PlanPiece> cut_plan(const Plan& plan, bool replays_members);

/// Where the slots of a plan lie while its pieces run.
class PieceMemory {
 public:
  PieceMemory(const Plan& plan, Backend& backend);
  /// Takes the externals of the whole plan, in order. Throws where there are more or fewer.
  void bind(std::span<const std::shared_ptr<Buffer>> externals);
  /// What a piece's plan is run with.
  std::vector<std::shared_ptr<Buffer>> of(const PlanPiece& piece) const;

 private:
  std::vector<int> externals_;
  std::vector<std::shared_ptr<Buffer>> buffers_;  // of every slot
};

}  // namespace nixie
