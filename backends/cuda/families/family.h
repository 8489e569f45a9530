// Family: hand-written kernels, or a template, for one kind of work: what it accepts, costs, absorbs and generates.
//
// Words of this backend:
//   head     the op at a kernel's start that is not elementwise: a convolution, a product, a pooling
//   group    kernels that run in one place of the graph; its members are the kernels as any backend runs them
//   choice   what a family runs for a group: an algorithm with its operands, as a value
//   parts    partial results, of blocks or of shares of a sum, that a later kernel combines
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

/// Why a family does not take a kernel: "groups 32".
struct Refusal {
  std::string why = {};
};

/// How a program reads an operand of the head; lowering copies operands where that is another layout. `pieces`:
/// channels side by side, all else in steps of 16 bytes, which may overlap.
enum class OperandLayout : std::uint8_t { as_it_is, channels_last, pieces };

/// An operand computed from what is stored, position by position: an element is the last register of `body`. Load 0
/// reads the view, load i reads more[i - 1], which maps the operand's shape to a slot. Without a body it is the view
/// itself. The op's padding stays zero: the body is not applied to it.
struct MappedOperand {
  Operand view = {};
  std::vector<Instruction> body = {};
  std::vector<Access> more = {};
  bool operator==(const MappedOperand&) const = default;
};

/// A 2x2 max pooling of max(head + bias, 0), or part of that, which is stored in place of the result.
struct PooledResult {
  Access output = {}, index = {};
  std::optional<Access> bias = {};
  bool relu = false;
};

/// What a family runs for a group: its program computes `kernel` and the members' further work named here.
struct Choice {
  const Family* family = nullptr;
  Kernel kernel = {};                       ///< operands, loads, stages and stores as the program has them
  std::any sizes = {};                      ///< the family's own: a ConvProblem, a BlasProblem, ...
  std::vector<OperandLayout> layouts = {};  ///< of the head's operands; none: as they are
  bool alone = false;                       ///< the program stores what the head computes and nothing else
  std::vector<Kernel> beside = {};  ///< run in the same launch: kernels whose programs are of `kernel`'s pattern

  std::vector<Operand> low_planes = {};      ///< operands 0 and 1 are the high planes of f32 values, these the low
  std::optional<MappedOperand> images = {};  ///< in place of the operand of images
  std::optional<int> packed_images = {};     ///< slot: packed by the forward pass, read by the filter gradient
  std::optional<Access> channel_sum = {};    ///< takes operand 0 summed over images and pixels: a bias gradient
  std::optional<PooledResult> pooled = {};   ///< stored in place of the result
  std::optional<Operand> pooled_by = {};     ///< operand 0 is the gradient of a 2x2 pooling with this index
  std::optional<Access> index = {};          ///< a pooling's index, stored beside its output
  std::optional<Operand> gate = {};          ///< a pooling's output: where it is not above zero no gradient passes
  std::optional<Parts> leaves = {};          ///< parts of the reductions of the kernel's last stage, for other groups
  std::vector<Parts> merges = {};            ///< parts that other groups leave of this kernel's reductions
};

/// A plan with these slots, none of which shares bytes with another: programs for shared launches are written for it,
/// so that they do not depend on where slots are.
Plan with_slots_apart(const Plan& plan);

/// The slots that a choice's program reads and writes.
std::vector<int> slots_read(const Choice& choice);
std::vector<int> slots_written(const Choice& choice);
/// What it stores to, in order.
std::vector<Access> stores_of(const Choice& choice);

/// The implementation of a group: the families that can run it, the fastest by estimate first.
struct Implementers final : Implementation {
  std::vector<Choice> choices = {};
  std::vector<std::string> refused = {};  ///< "conv_halo_sm90: stride 2": families that were asked before
  std::string name() const override;
};

using Match = std::variant<Choice, Refusal>;

class Grouping;

/// A group's work together with another group's.
struct Absorption {
  enum class Other : std::uint8_t {
    joins,      ///< its members become the group's
    is_cloned,  ///< its members are computed in the group, too
    stays,      ///< it only makes what the program reads
  };
  Choice choice = {};
  Other other = Other::joins;
  std::optional<Operand> gate_maker = {};  ///< the group that stores operand 0 multiplies it by 0 < this
  std::optional<Slot> packed = {};         ///< a slot that the other group packs images into, for both
  std::optional<Choice> reader = {};       ///< the other group's choice, which merges what `choice` leaves
  std::optional<Slot> left = {};           ///< where that lies
};

class Family {
 public:
  virtual ~Family() = default;
  /// As its .cuh: "conv_fprop_sm90".
  virtual std::string_view name() const = 0;
  /// Whether it can run the kernel on a chip, its operands copied to other layouts perhaps. The one place that says
  /// what the family is limited to.
  virtual Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const = 0;
  /// The algorithms that it has for a choice, by estimate; none where there is but one.
  virtual std::vector<Algorithm> algorithms(const Plan&, const Choice&, const Chip&) const { return {}; }
  /// Families whose estimates are in the same unit compete for a kernel; the others take it in the registry's order.
  virtual std::string_view unit() const { return {}; }
  /// What an algorithm is chosen for, in words; not empty where there are several.
  virtual std::string operation(const Plan&, const Choice&) const { return {}; }
  /// The choice of a group with another group's work in it, if the program can do that. Whether the order of kernels
  /// allows it is the caller's concern (rewrite/absorb.h).
  virtual std::optional<Absorption> absorb(const Grouping&, const Choice&, std::size_t /*other*/) const { return {}; }
  /// The program for launches that kernels share, where it has one.
  virtual std::optional<OneLaunch> one_launch(const Plan&, const Kernel&) const { return {}; }
  /// The program; `algorithm`: one by name, the first where it is empty.
  virtual KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip,
                              const std::string& algorithm) const = 0;
};

/// A plan while its groups are formed: kernels are in groups, slots in the plan.
class Grouping {
 public:
  struct Group {
    std::vector<Kernel> members = {};
    std::shared_ptr<Implementers> by = {};  ///< null: not chosen yet, members run
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
  /// What runs a group, if one family does and that one is `family`.
  const Choice* choice(std::size_t group, std::string_view family) const;
  /// The only group that reads a slot in the arena which only one group writes.
  std::optional<std::size_t> only_reader(int slot) const;

  Plan& plan;
  const Chip& chip;
  std::vector<Group> groups = {};
  std::vector<Split> splits = {};
};

}  // namespace nixie::cuda
