// BodyWriter: prints a kernel's stages as the members of the generated `struct Body`.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nixie/backends/cuda/generate/iteration_space.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// A pointer member of Body; the host passes them, in order, as the kernel's one argument.
struct Argument {
  /// Values of `slot` for other memory: the plan's scalars, the kernel's scratch, its table; kNumber: the offset itself
  /// is passed as a number.
  static constexpr int kScalars = -1, kScratch = -2, kTable = -3, kNumber = -4;
  int slot = 0;
  std::int64_t offset_bytes = 0;
};

/// How the positions of one function are laid out: `lanes` neighbours along axis `lane_axis` per group.
struct Frame {
  int lane_axis = -1;
  int lanes = 1;
  bool kept_only = false;         ///< positions have no reduced axes
  bool carried_per_lane = false;  ///< lanes are different kept positions
  bool carried_is_local = false;  ///< no reductions: carried values live inside a lane
  bool one_accumulator = false;   ///< of all lanes
  /// Axes [first, second) along which consecutive calls move; loads that do not depend on these axes are hoisted.
  std::optional<std::pair<int, int>> moving{};
  std::string leader{};  ///< condition of stores; "" for always
  std::string head{};    ///< the expression of Primitive::head, evaluated once per lane
};

/// How the iteration space of a kernel is ordered.
enum class Order {
  memory,  ///< so that neighbouring positions are neighbours in memory
  domain,  ///< as the domain
  nhwc,    ///< images: every axis but the channels in the domain's order, then the channels
  matrix,  ///< every axis but the last, then the last
};

/// The registers that a register is made of, itself included.
std::vector<bool> needed_for(const std::vector<Instruction>& body, const std::vector<int>& registers);

class BodyWriter {
 public:
  /// `coordinates`: the head reads positions along the domain's own axes.
  BodyWriter(const Plan& plan, const Kernel& kernel, bool coordinates = false, Order order = Order::memory);

  const IterationSpace& space() const { return space_; }
  bool wide() const { return wide_; }  ///< indices need 64 bits
  std::int64_t groups(const Frame& frame, int first, int last) const;
  /// The number of neighbours along an axis whose accesses take up to 16 bytes: 8, 4, 2 or 1.
  int lanes_along(int axis) const;
  /// The same for elementwise kernels: 16 where 8 are few bytes of large arrays.
  int map_lanes_along(int axis) const;
  /// The same, but at most as many as leave every access along the axis an aligned piece of memory.
  int pieces_along(int axis) const;
  /// Whether the access that costs most has stride 1 along an axis.
  bool contiguous_along(int axis) const;

  /// Adds a pointer member of a type ("const f32*") unless there is one of that name, and returns its name.
  std::string pointer(const std::string& type, const std::string& name, Argument argument);
  std::string pointers() const;
  const std::vector<Argument>& arguments() const { return arguments_; }
  /// Whether the kernel writes to this slot's memory; its loads from there then avoid the read-only cache.
  bool written(int slot) const;

  /// The parts of the functions that run these stages. Positions a0, a1, ... must be in scope.
  struct Code {
    std::string members;                    ///< of its struct Loads
    std::string load;                       ///< fills `loads`
    std::string fixed_members, fixed_load;  ///< the same for `fixed`: hoisted loads
    std::string prefetch;                   ///< prefetches `count` neighbours along the lanes' axis into L2
    std::string run;                        ///< uses `fixed`, `loads`, `carried` and `accumulators`, and stores
    int loads = 0, fixed = 0;
  };
  Code stages(const std::vector<int>& indices, const Frame& frame);

  /// Declares a{first} ... a{last - 1} from a linear group index.
  std::string positions(const Frame& frame, const std::string& group, int first, int last) const;
  /// The position along one of the domain's axes (only with `coordinates`).
  std::string coordinate(int axis, const Frame& frame, const std::string& lane) const;

  std::string carried_members() const;

 private:
  int add_path(Strides strides);
  std::string index(const Path& path, const Frame& frame, const std::string& lane) const;
  std::string condition(const Path& path, const Frame& frame, const std::string& lane) const;
  std::int64_t lane_stride(const Path& path, const Frame& frame) const;
  bool vector_access(const Path& path, const Frame& frame) const;
  bool loads_once(const Path& path, const Frame& frame) const;
  bool is_fixed(int load, const Frame& frame) const;
  void add_load(int load, const Frame& frame, Code& code);
  std::string instruction(const Instruction& in, const Frame& frame) const;
  std::string random(const Instruction& in, const Frame& frame) const;
  /// Declares the needed registers of a stage.
  std::string registers(const Stage& stage, const Frame& frame, const std::vector<bool>& needed) const;
  /// Adds to the accumulator of reduction i.
  std::string accumulate(const Stage& stage, const Frame& frame, std::size_t i) const;
  /// The parts of a stage before, in and behind the loop over lanes.
  void add_stage(int index, const Frame& frame, std::string& before, std::string& lane, std::string& after);
  void add_store(const Store& store, const Frame& frame, std::string& before, std::string& lane, std::string& after);

  const Plan& plan_;
  const Kernel& kernel_;
  IterationSpace space_;
  std::vector<Path> paths_;
  std::vector<int> coordinates_;                 // path of each domain axis, or -1
  int row_major_ = -1, reduced_row_major_ = -1;  // paths of linear positions: in the domain, over the reduced axes
  int main_path_ = -1;                           // the access that costs most
  bool wide_ = false;
  std::vector<std::pair<std::string, std::string>> pointers_;  // type, name
  std::vector<Argument> arguments_;
};

}  // namespace nixie::cuda
