// Plan: a step as a partial order of kernels over slots of memory; the boundary between the graph and the backends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nixie/core/graph/instruction.h"
#include "nixie/core/graph/op.h"

namespace nixie {

/// A piece of memory. External slots (inputs, variables, results)
/// are bound when the plan runs; others are in the arena.
struct Slot {
  std::string name = {};
  Dtype dtype = Dtype::f32;  ///< no u64 (plan_dtype)
  Shape shape = {};          ///< logical
  Strides strides = {};      ///< physical, dense, in elements
  bool external = false;
  std::int64_t offset = 0;  ///< bytes into the arena, a multiple of 256
  std::int64_t size_bytes() const { return shape.size() * size_of(dtype); }
};

/// How a kernel's domain maps to a slot: element offset + sum(position * stride). A stride of 0 repeats.
struct Access {
  int slot = 0;
  std::int64_t offset = 0;  ///< in elements
  Strides strides = {};     ///< in elements, per domain axis
  /// Per domain axis the positions [low, high) that are inside the slot; empty: all of them. A load outside gives
  /// `fill`, a store outside is skipped.
  std::vector<std::pair<std::int64_t, std::int64_t>> inside = {};
  double fill = 0;
  bool operator==(const Access&) const = default;
};

/// A reduction of a register over the kernel's reduced axes, stored in a carried value.
struct Reduction {
  ReduceKind kind = ReduceKind::sum;
  int value = 0;    ///< register of the stage
  int carried = 0;  ///< receives the result
};
struct Carry {
  int value = 0, carried = 0;
};
struct Store {
  int value = 0;   ///< register of the stage
  int access = 0;  ///< index into the kernel's stores; the register's type is converted to the slot's (saturating)
};

/// Straight-line code run for each position of the domain (`full`), or for each kept position: the domain without its
/// reduced axes. Full stages may reduce; kept stages may carry. Registers are local to a stage.
struct Stage {
  bool full = true;
  std::vector<Instruction> body = {};
  std::vector<Store> stores = {};
  std::vector<Reduction> reductions = {};  ///< mean and m2 of one register are one Welford accumulator
  std::vector<Carry> carries = {};
};

/// An operand of a head: a strided view of a slot.
struct Operand {
  int slot = 0;
  std::int64_t offset = 0;  ///< in elements
  Shape shape = {};
  Strides strides = {};
  bool operator==(const Operand&) const = default;
};

/// A kernel's loop before its stages: computes one value per domain position, read by Primitive::head.
/// Operands are the op's inputs in order; the head's result has the kernel's domain as its shape.
struct Head {
  std::variant<Matmul, Conv, RoundedProduct, Pool, Gather, Scatter, ArgSort, Scan, Collective> op = {};
  std::vector<Operand> operands = {};
  Dtype dtype = Dtype::f32;  ///< of the result; halves accumulate in float
};

/// Whether the head is a product of f32 that may round its operands to tf32.
bool multiplies_tf32(const Head& head);

/// An optional head, then stages in order; a stage sees everything that earlier stages carried.
/// Kernels with a head have no reduced axes.
struct Kernel {
  std::string label = {};
  Shape domain = {};
  Axes reduced = {};
  std::optional<Head> head = {};
  std::vector<Access> loads = {}, stores = {};
  std::vector<Dtype> carried = {};  ///< types of the carried values: f32, f64, i32 or i64
  std::vector<Stage> stages = {};
};

/// A backend's own description of the program that replaces a group's members; opaque to core.
struct Implementation {
  virtual ~Implementation() = default;
  virtual std::string name() const = 0;  ///< for printing and errors
};

/// Kernels that run as one. Any backend can run its members one after the other instead, with the same results.
struct Group {
  std::vector<int> members = {};  ///< kernels, ascending
  /// The slots that running the group reads and writes: with an implementation, the implementation's, which may differ
  /// from its members'; without one, its members'.
  std::vector<int> reads = {}, writes = {};
  std::shared_ptr<const Implementation> implementation = {};
  std::vector<int> waits_for = {};  ///< groups that must finish first, ascending
};

/// Whether computations share kernels. Without fusion each op has its own kernel and stores its result, as in eager
/// frameworks: a reference for the effect of rounding.
enum class Fusion : std::uint8_t { full, none };

/// Kernels in a valid order of execution, and groups of them, also in a valid order.
struct Plan {
  std::vector<Kernel> kernels = {};
  std::vector<Group> groups = {};  ///< none before plan_memory; then each kernel is in one
  std::vector<Slot> slots = {};
  std::vector<int> externals = {};   ///< the external slots, in binding order
  std::vector<double> scalars = {};  ///< the values when the plan was made; a run may replace them
  std::int64_t arena_bytes = 0;
  std::int64_t batch = 0;  ///< the first size of the largest input that is no Variable; 0: there is none
};

/// The shape of a kernel's kept positions: its domain with 1 for the reduced axes.
Shape kept_shape(const Kernel& kernel);

/// The plan as text: one line per slot, and per kernel its domain, accesses and formulas.
std::string to_string(const Plan& plan);

}  // namespace nixie
