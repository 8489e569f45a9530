// KernelBuilder: turns groups of computations into kernels: slots, accesses and stages of instructions.
#pragma once

#include <map>
#include <set>
#include <unordered_map>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/passes/fuse.h"
#include "nixie/core/passes/fusion_graph.h"

namespace nixie {

class KernelBuilder {
 public:
  /// Gives roots their external slots, and adds copies (to `units`) for those that no unit can write directly.
  KernelBuilder(const Graph& graph, const Layout& layout, FusionGraph& units);
  /// Gives every value that other groups read a slot; returns for each group the groups that must come after it.
  std::vector<std::set<int>> place(const std::vector<FusedGroup>& groups);
  /// Whether a unit's value is a result of the step. Ask before `place`.
  bool is_root(int u) const { return slot_of_base_.count(unit(u).value.id()) != 0 || extra_.count(u) != 0; }
  /// Per group: whether it writes external slots only.
  const std::vector<char>& sinks() const { return sinks_; }
  Plan build(const std::vector<FusedGroup>& groups, const std::vector<int>& order);

 private:
  friend class StageBuilder;
  struct Written {  // the slots of a unit's values
    int slot = 0;
    View view = {};
  };
  const FusionNode& unit(int u) const { return units_.all()[at(u)]; }
  int add_slot(const Tensor& x, const Strides& strides, bool external, const std::string& name);
  void claim(const Tensor& root, int slot, bool is_read = false);
  int slot_of(const Source& source);
  Written written(int u);
  Strides strides_in(int slot, const Shape& shape) const;
  Access access(const Written& target, const Kernel& kernel) const;
  Head head_of(const FusionNode& member);
  Kernel kernel_of(const FusedGroup& group);
  void protect_variables(const FusedGroup& group, Kernel& kernel);
  void divert(int slot, int writer);
  int add_new_value(int variable);

  const Layout& layout_;
  FusionGraph& units_;
  Plan plan_;
  std::unordered_map<const Node*, int> slot_of_base_;
  std::unordered_map<const Node*, int> scalar_of_;
  std::map<int, int> slot_of_copy_;
  std::map<int, std::vector<int>> extra_;  // external slots a unit writes besides its own
  std::vector<char> stored_;               // per unit: whether its value has a slot
  std::vector<int> group_of_;
  std::vector<char> sinks_;
  std::map<int, int> writer_of_leaf_;  // leaf slot of a Variable -> unit that sets it
  std::vector<Kernel> last_;           // copies into Variables that could not be written in place
};

}  // namespace nixie
