// Cuts a plan into plans of one group each, which run one after the other in the whole plan's memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// A group as a plan; its externals are the slots that other groups use. It keeps the whole plan's slot numbers.
struct PlanPiece {
  Plan plan;
  std::string name;  ///< its position among the groups, its members, its implementation
};

/// One piece for each group, in order. With `replays_members`, slots that only members use are externals, too.
std::vector<PlanPiece> cut_plan(const Plan& plan, bool replays_members);

/// The memory of a plan's slots while its pieces run.
class PieceMemory {
 public:
  PieceMemory(const Plan& plan, Backend& backend);
  /// Takes the externals of the whole plan, in order. Throws if their number is wrong.
  void bind(std::span<const std::shared_ptr<Buffer>> externals);
  /// The externals of a piece's plan.
  std::vector<std::shared_ptr<Buffer>> of(const PlanPiece& piece) const;

 private:
  std::vector<int> externals_;
  std::vector<std::shared_ptr<Buffer>> buffers_;  // of every slot
};

}  // namespace nixie
