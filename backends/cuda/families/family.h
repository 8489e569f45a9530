// Family: hand-written kernels or a template for one kind of work: what they accept, cost, absorb and generate.
//
// Terms of this backend:
//   head     the op at a kernel's start that is not elementwise: a convolution, a product, a pooling
//   group    kernels that run as one node of the graph; its members are the kernels as any backend runs them
//   choice   what a family runs for a group: an algorithm with its operands, as a value
//   parts    partial results, of blocks or of a split sum, that a later kernel combines
//   phase    the pixels of a strided input gradient that are equal modulo the stride
//   form     another convolution with the same result: padded, unfolded, folded, in phases
//   plane    one of the two 16-bit arrays that together hold an f32 array
#pragma once

#include <any>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/cuda/generate/shared_launch.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

class Family;

/// Why a family refuses a kernel: "groups 32".
struct Refusal {
  std::string why = {};
};

/// The layout in which a program reads an operand of the head; lowering copies operands with another layout. `pieces`:
/// channels contiguous, all other strides multiples of 16 bytes, which may overlap.
enum class OperandLayout : std::uint8_t { as_it_is, channels_last, pieces, terms_inside };

/// An operand computed elementwise while it is loaded: an element is the last register of `body`. Load 0
/// reads the view, load i reads more[i - 1], which maps the operand's shape to a slot. Without a body it is the view
/// itself. The op's padding stays zero: the body is not applied to it.
struct MappedOperand {
  Operand view = {};
  std::vector<Instruction> body = {};
  std::vector<Access> more = {};
  bool operator==(const MappedOperand&) const = default;
};

/// A 2x2 max pooling of max(head + bias, 0), or part of that formula, stored in place of the result.
struct PooledResult {
  Access output = {}, index = {};
  std::optional<Access> bias = {};
  bool relu = false;
};

/// A family's implementation of a group: its program computes `kernel` and the absorbed work of other members below.
struct Choice {
  const Family* family = nullptr;
  Kernel kernel = {};                       ///< operands, loads, stages and stores as the program has them
  std::any sizes = {};                      ///< the family's own: a ConvProblem, a BlasProblem, ...
  std::vector<OperandLayout> layouts = {};  ///< of the head's operands; none: as they are
  bool alone = false;                       ///< the program only stores the head's result
  std::vector<Choice> beside = {};          ///< run in the same launch: their programs have this one's pattern

  std::vector<Operand> low_planes = {};      ///< operands 0 and 1 are the high planes of f32 values, these the low
  std::optional<MappedOperand> images = {};  ///< replaces the image operand
  std::optional<int> packed_images = {};     ///< slot: packed by the forward pass, read by the filter gradient
  std::optional<Access> channel_sum = {};    ///< receives operand 0 summed over images and pixels: a bias gradient
  std::optional<PooledResult> pooled = {};   ///< stored in place of the result
  std::optional<Operand> pooled_by = {};     ///< operand 0 is the gradient of a 2x2 pooling with this index
  std::optional<Access> index = {};          ///< a pooling's index, stored beside its output
  std::optional<Parts> leaves = {};          ///< parts of the reductions of the kernel's last stage, for other groups
  std::vector<Parts> merges = {};            ///< parts that other groups leave of this kernel's reductions
};

/// A plan with the same slots, none of which share bytes. Programs of shared launches are generated for it, so that
/// they
/// do not depend on slot addresses.
Plan with_slots_apart(const Plan& plan);

/// The slots that a choice's program reads and writes.
std::vector<int> slots_read(const Choice& choice);
std::vector<int> slots_written(const Choice& choice);
/// The accesses that it stores to, in order.
std::vector<Access> stores_of(const Choice& choice);

/// The implementation of a group: the families that can run it, sorted by estimated time.
struct Implementers final : Implementation {
  std::vector<Choice> choices = {};
  std::vector<std::string> refused = {};  ///< "conv_halo_sm90: stride 2": families that refused before
  std::string name() const override;
};

using Match = std::variant<Choice, Refusal>;

class Grouping;

/// The result of fusing another group's work into a group.
struct Absorption {
  enum class Other : std::uint8_t {
    joins,      ///< its members become the group's
    is_cloned,  ///< its members are computed in the group, too
    stays,      ///< it stays and computes the program's input
  };
  Choice choice = {};
  Other other = Other::joins;
  std::optional<Slot> packed = {};    ///< a slot that the other group packs images into, for both
  std::optional<Choice> reader = {};  ///< the other group's choice, which merges the parts of `choice`
  std::optional<Slot> left = {};      ///< the slot in which `choice` leaves them
};

class Family {
 public:
  virtual ~Family() = default;
  /// The name of its .cuh: "conv_fprop_sm90".
  virtual std::string_view name() const = 0;
  /// The choice that runs the kernel on a chip, if necessary with operands copied to other layouts, or a refusal. All
  /// limits of the family are here.
  virtual Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const = 0;
  /// The algorithms for a choice, sorted by estimate; empty if there is only one.
  virtual std::vector<Algorithm> algorithms(const Plan&, const Choice&, const Chip&) const { return {}; }
  /// What the program asks of a chip besides memory and its launch: by default what its fastest algorithm is estimated
  /// at, or its multiplications.
  virtual Work work(const Plan& plan, const Choice& choice, const Chip& chip) const;
  /// Families whose estimates have the same unit compete for a kernel; otherwise the registry's order decides.
  virtual std::string_view unit() const { return {}; }
  /// The operation in words, the key of the tuning table; not empty if there are several algorithms.
  virtual std::string operation(const Plan&, const Choice&) const { return {}; }
  /// The choice of a group with another group's work fused, if the program can do that. The caller checks whether the
  /// order of kernels allows it (rewrite/absorb.h).
  virtual std::optional<Absorption> absorb(const Grouping&, const Choice&, std::size_t /*other*/) const { return {}; }
  /// The program for shared launches, if it has one.
  virtual std::optional<OneLaunch> one_launch(const Plan&, const Choice&) const { return {}; }
  /// The program; `algorithm`: by name, the first if empty.
  virtual KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip,
                              const std::string& algorithm) const = 0;
};

/// A plan while its groups are formed: kernels are in groups, slots in the plan.
class Grouping {
 public:
  struct Group {
    std::vector<Kernel> members = {};
    std::shared_ptr<Implementers> by = {};  ///< null: not chosen yet, the members run
  };
  /// Planes of halves that an f32 operand was split into.
  struct Split {
    Operand from = {}, high = {};
    int scales = 0;
  };

  Grouping(Plan& plan, const Chip& chip) : plan(plan), chip(chip) {}

  /// Whether running a group reads or writes a slot.
  bool reads(std::size_t group, int slot) const;
  bool writes(std::size_t group, int slot) const;
  std::vector<std::size_t> readers_of(int slot) const;
  std::vector<std::size_t> writers_of(int slot) const;
  /// The choice of a group, if only `family` runs it.
  const Choice* choice(std::size_t group, std::string_view family) const;
  /// The only reader of an arena slot that has only one writer.
  std::optional<std::size_t> only_reader(int slot) const;

  Plan& plan;
  const Chip& chip;
  std::vector<Group> groups = {};
  std::vector<Split> splits = {};
};

}  // namespace nixie::cuda
