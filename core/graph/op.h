// Op: the closed set of node kinds a graph is made of. Every backend and pass visits all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "nixie/core/base/dtype.h"
#include "nixie/core/base/shape.h"

namespace nixie {

class Communicator;      // core/graph/world.h
struct ElementwiseInfo;  // core/ops/elementwise.h
class Storage;           // core/graph/storage.h
struct VariableState;    // core/state/variable.h

/// A number. `weak` ones (C++ literals) take the type of the other operand.
struct Constant {
  double value = 0;
  bool weak = true;
};
/// A value from outside the graph: a named input of a Step, stored elements (a result, a host array), or a Variable's
/// value at the beginning of its Step.
struct Input {
  std::string name = {};
  std::shared_ptr<Storage> storage = {};
  std::shared_ptr<VariableState> variable = {};
  bool has_variable_layout = false;  ///< of a Step's input: the storage given for it is Storage::of_variable
};
/// An elementwise op. Its inputs have the node's shape, or are Constants.
struct Map {
  std::shared_ptr<const ElementwiseInfo> op = {};
};
/// Position along an axis, i32.
struct Coordinate {
  int axis = 0;
};
enum class ReduceKind : std::uint8_t {
  sum,
  prod,
  max,
  min,  ///< over no elements: 0, 1, -inf, +inf (integers: the lowest and highest)
  argmax,
  argmin,  ///< i32 row-major position over the reduced axes; ties: the first; NaN wins
  mean,
  m2,  ///< m2: sum of squared distances from the mean (Welford-Chan); variance is m2 / n
};
constexpr bool gives_position(ReduceKind kind) { return kind == ReduceKind::argmax || kind == ReduceKind::argmin; }
constexpr bool is_moment(ReduceKind kind) { return kind == ReduceKind::mean || kind == ReduceKind::m2; }
/// A reduction that keeps the reduced axes with size 1.
struct Reduce {
  ReduceKind kind = ReduceKind::sum;
  Axes axes = {};  ///< sorted, distinct, each of size other than 1
};
/// Repeats axes of size 1; the rank stays.
struct Expand {};
/// The same elements in row-major order under another shape.
struct Reshape {};
/// Output axis i is input axis order[i].
struct Permute {
  Axes order = {};
};
/// Output position i reads input position start + i * step, on each axis; steps may be negative.
struct Slice {
  std::vector<std::int64_t> start = {}, step = {};
};
/// Adds `low` and `high` elements of `value` before and after each axis.
struct Pad {
  std::vector<std::int64_t> low = {}, high = {};
  double value = 0;
};
/// Inputs side by side along an axis.
struct Concat {
  int axis = 0;
};
/// out[.., i.., ..] = x[.., indices[i..], ..] along an axis of size n. Negative indices count from the end; one outside
/// [-n, n) reads NaN, of integers the largest number (of u64 that of i64). Inputs: x, indices (i32).
struct Gather {
  int axis = 0;
};
/// Gather's transpose: reduces the updates of each position of the node's shape, in their order; those without any get
/// what the reduction gives of nothing (of integers the bounds of the compute type). An index out of range makes the
/// whole result NaN, of integers the largest number. Inputs: updates, indices, and the order [number of indices] (i32)
/// that sorts the indices, which it reads in place of searching all of them for each position.
struct Scatter {
  int axis = 0;
  ReduceKind kind = ReduceKind::sum;  ///< sum, prod, max or min
};
/// Positions (i32) along an axis in the order of the input's values, the first ones if the node is shorter there. Equal
/// values keep their order; NaN is larger than every number.
struct ArgSort {
  int axis = 0;
  bool descending = false;
};
/// Along an axis: the reduction of the elements up to each one, itself included.
struct Scan {
  ReduceKind kind = ReduceKind::sum;  ///< neither mean nor m2
  int axis = 0;
  bool reverse = false;    ///< from the last element to the first
  bool exclusive = false;  ///< without the element itself: the first result is what the reduction gives of nothing
};
enum class RandomKind : std::uint8_t { uniform, normal };
/// Numbers of a counter-based stream (core/base/random.h), a function of the stream, the step and the element's
/// row-major position. Input: the step, one i32 number repeated over the shape.
struct Random {
  RandomKind kind = RandomKind::uniform;
  std::uint64_t stream = 0;
  std::int64_t first = 0;  ///< the position in the stream of the first element; below 2^53
};
/// The arithmetic of f32 products; sums are f32.
enum class Math : std::uint8_t {
  ieee,  ///< f32 multiply-adds
  fp32,  ///< any algorithm that is as accurate for operands of similar magnitude
  tf32   ///< at least 10-bit mantissas, if that is faster on the hardware
};
/// [..., m, k] x [..., k, n] -> [..., m, n], batch axes equal. Transposes are Permutes of the inputs.
struct Matmul {
  Math math = Math::ieee;
};

enum class ConvRole : std::uint8_t {
  output,       ///< inputs x, w
  input_grad,   ///< inputs dy, w; the node has x's shape
  filter_grad,  ///< inputs dy, x; the node has w's shape
};
/// Cross-correlation of x [N, C, spatial...] with w [K, C / groups, window...]: [N, K, spatial...]. There are 1 to 3
/// spatial axes.
struct Conv {
  ConvRole role = ConvRole::output;
  std::vector<int> stride = {}, pad = {}, dilation = {};  ///< per spatial axis; pad on both sides
  int groups = 1;
  Math math = Math::ieee;
};
/// Sums that are rounded on the way. `merge` (sum, group) gives the sum with a group's terms, rounded to a format
/// (sums_in in core/ops/formats.h).
struct Sums {
  int every = 0;  ///< terms of a group; 0: sums are f32 and never rounded
  std::shared_ptr<const ElementwiseInfo> merge = {};
  /// Longer sums are cut into parts of this many terms; the last is shorter. Parts are merged as groups are.
  static constexpr int kPart = 4096;
};
/// A product or convolution with such sums. It is an op of its own, so that rewrites and kernels of plain products pass
/// it by, but those that round. Terms are those of k; in a convolution of each window position in turn its channels (of
/// an input gradient filters), in a filter gradient of each image in turn its output's pixels; those outside the images
/// count as 0. Each part begins with 0. A group's terms are added in f32: by multiply-adds in order from 0, on tensor
/// cores in theirs. No result is -0.
struct RoundedProduct {
  std::variant<Matmul, Conv> product = {};
  Sums sums = {};
};
enum class PoolKind : std::uint8_t { max, average };
enum class PoolRole : std::uint8_t {
  output,  ///< input x [N, C, spatial...]
  index,   ///< max: row-major position inside the window of the first maximum (NaN wins); u8, i32 above 256 positions
  input_grad,  ///< max: dy, index; average: dy; the node has x's shape
  gather,      ///< max: v (of x's shape), index: v at each maximum
};
/// Windows over channels and spatial axes (every axis but the first), overlapping or not. Padding is never the maximum.
struct Pool {
  PoolKind kind = PoolKind::max;
  PoolRole role = PoolRole::output;
  std::vector<int> window = {}, stride = {}, pad = {};  ///< per axis after the first: channels, then spatial
  bool count_pad = false;          ///< average: divide by the window's size, not by the positions inside the input
  std::vector<int> dilation = {};  ///< distance between positions of a window, per axis; empty: 1 on all axes
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,      ///< the sum of the ranks' inputs, in a fixed order of the ranks
  all_gather,      ///< the ranks' inputs side by side along axis 0
  reduce_scatter,  ///< of the sum, cut along axis 0 into one part for each rank, this rank's part
  broadcast        ///< the root's input
};
/// A value that all ranks of a communicator compute together. Every rank computes the same collectives in the order of
/// their numbers, each once: passes neither merge, duplicate nor reorder them.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::shared_ptr<Communicator> communicator = {};
  std::int64_t number = 0;  ///< order of creation in the process; a later one may depend on an earlier one
  int root = 0;             ///< of a broadcast
};

using Op = std::variant<Constant, Input, Map, Coordinate, Reduce, Expand, Reshape, Permute, Slice, Pad, Concat, Gather,
                        Scatter, ArgSort, Scan, Random, Matmul, Conv, RoundedProduct, Pool, Collective>;

template <class... F>
struct overloaded : F... {
  using F::operator()...;
};
template <class... F>
overloaded(F...) -> overloaded<F...>;

/// One of several node kinds, for a case of a visit that treats them alike. Visits list all kinds, so that the compiler
/// reports every visit that lacks a new kind.
template <class T, class... Kinds>
concept OneOf = (std::is_same_v<T, Kinds> || ...);

/// The Matmul or Conv that an op, or a head's, computes, its sums rounded or not; null for others.
template <class Product, class Ops>
const Product* product_in(const Ops& op) {
  const auto* rounded = std::get_if<RoundedProduct>(&op);
  return rounded ? std::get_if<Product>(&rounded->product) : std::get_if<Product>(&op);
}

/// Whether an op is of one of these kinds.
template <class... Kinds>
bool is_a(const Op& op) {
  return (std::holds_alternative<Kinds>(op) || ...);
}

/// How a kernel gets a node's elements.
enum class OpRole : std::uint8_t {
  leaf,         ///< they are stored
  elementwise,  ///< straight-line code, position by position
  reduction,
  view,    ///< it reads another node's elements in another order
  concat,  ///< each part is copied into it
  head     ///< a loop of its own, before the kernel's stages (plan.h)
};
OpRole role_of(const Op& op);
inline bool is_head(const Op& op) { return role_of(op) == OpRole::head; }
inline bool is_view(const Op& op) { return role_of(op) == OpRole::view; }

std::string_view to_string(ReduceKind kind);
std::string_view to_string(CollectiveKind kind);

}  // namespace nixie
