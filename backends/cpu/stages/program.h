// Program: a kernel's stages as steps over tiles of lanes.
#pragma once

#include <vector>

#include "nixie/backends/cpu/lanes/lanes.h"
#include "nixie/backends/cpu/stages/geometry.h"
#include "nixie/backends/cpu/stages/reduce.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cpu {

/// One instruction with its place in the workspace.
struct Step {
  Instruction code;
  LaneFunction function = nullptr;      ///< of instructions that compute
  std::array<int, 3> args{-1, -1, -1};  ///< registers that it reads
  int view = -1;                        ///< of loads, heads, coordinates and random numbers
  int buffer = -1;
  bool pinned = false;    ///< the buffer is this step's own, so that its lanes can be kept from tile to tile
  bool live = false;      ///< a store, a reduction or a carried value depends on it
  bool outlives = false;  ///< it is stored, reduced or carried itself, at the end of the body
  int direct = -1;        ///< the store that may take the result where it is computed
};

/// Several reductions of one register share their cells where they can.
struct FoldStep {
  Fold fold;
  int value;  ///< register
  int cell;   ///< first of its cells
  std::vector<Reduction> results;
};

struct StageProgram {
  bool full = true;
  std::vector<Step> steps;
  std::vector<Store> stores;
  std::vector<FoldStep> folds;
  std::vector<Carry> carries;
  int first_step = 0;          ///< number of steps in earlier stages
  std::int64_t computing = 0;  ///< steps that run a function
};

/// A kernel, ready to run on any memory. Views: loads, stores, then computed positions.
class Program {
 public:
  /// Throws where the kernel is not well formed.
  Program(const Kernel& kernel, const std::vector<Slot>& slots);

  const Kernel& kernel() const { return kernel_; }
  const Geometry& geometry() const { return geometry_; }
  const std::vector<StageProgram>& stages() const { return stages_; }
  int view_of_store(int store) const { return static_cast<int>(kernel_.loads.size()) + store; }
  int reduced_position_view() const { return reduced_position_view_; }
  int buffers() const { return buffers_; }
  int cells() const { return cells_; }
  int steps() const { return steps_; }
  /// The store whose slot can also hold the head's values before the stages run, -1 where there is none.
  int head_store() const { return head_store_; }
  /// Whether that store takes the head's value unchanged.
  bool head_store_is_final() const { return head_store_is_final_; }
  /// Lanes of the longest tile.
  std::int64_t tile_lanes() const;

 private:
  std::vector<View> make_views();
  Geometry make_geometry();
  void compile(const Stage& stage);
  Step compile(const Stage& stage, int reg) const;
  std::vector<int> count_uses(StageProgram& program, const Stage& stage) const;
  void join_pairs(StageProgram& program, const std::vector<int>& uses) const;
  void place_registers(StageProgram& program, const std::vector<int>& uses);
  void choose_direct_stores(StageProgram& program, const std::vector<Slot>& slots) const;
  void check_types(const Stage& stage, const std::vector<Slot>& slots) const;
  void group_reductions(StageProgram& program, const Stage& stage);
  void find_head_store(const std::vector<Slot>& slots);

  Kernel kernel_;
  std::vector<int> coordinate_views_;  ///< per domain axis, -1 where unused
  int row_major_view_ = -1, reduced_position_view_ = -1;
  Geometry geometry_;
  std::vector<StageProgram> stages_;
  int pinned_ = 0, buffers_ = 0, cells_ = 0, steps_ = 0;
  int head_store_ = -1;
  bool head_store_is_final_ = false;
};

}  // namespace nixie::cpu
