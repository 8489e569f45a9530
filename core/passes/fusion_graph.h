// FusionGraph: the computations of a graph and how they read each other; the input of fusion.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nixie/core/passes/layout.h"
#include "nixie/core/passes/view.h"

namespace nixie {

/// One computation: a node other than a view, a copy of a view that strides cannot express, or one part of a concat.
struct FusionNode {
  enum class Kind : std::uint8_t { map, reduce, head, copy };
  Kind kind = Kind::map;
  Tensor value = {};       ///< the result; for a copy: the copied tensor
  Shape domain = {};       ///< the iteration domain: for a reduction the input's shape
  Axes axes = {};          ///< reduced axes
  std::int64_t order = 0;  ///< later ones may read earlier ones
  const std::vector<Tensor>& inputs() const { return kind == Kind::copy ? copied : value.inputs(); }
  std::vector<Tensor> copied = {};
};

/// The storage of a tensor's elements: the slot of a base, read through a view.
struct Source {
  Tensor base = {};
  int copy = -1;  ///< the unit of the copy that holds the elements; -1: the base's own slot
  View view = {};
  Tensor written = {};  ///< what is read of the base: all of it, or a value that is stored in this concat alone
};

/// How a unit reads another: from its register, its carried value, the register of a head of another shape, or memory.
enum class EdgeKind : std::uint8_t { direct, expand, reshaped, load };
struct Edge {
  int from = 0, to = 0;
  EdgeKind kind = EdgeKind::load;
};

/// What a unit asks of the view through which it reads a value.
enum class Reading : std::uint8_t {
  any,        ///< nothing
  unbounded,  ///< no bounds: heads
  dense       ///< the elements in the order in which the value itself would be stored: collectives
};
Reading reading_of(const FusionNode& unit);

class FusionGraph {
 public:
  FusionGraph(const Graph& graph, const Layout& layout);

  const std::deque<FusionNode>& all() const { return units_; }
  const std::vector<Edge>& edges() const { return edges_; }
  /// The unit of a node other than a view, leaf or concat; -1 for these.
  int of(const Tensor& x) const;
  /// The units that write a base: one, or a concat's parts; none for leaves.
  std::vector<int> writers(const Source& source) const;
  /// For a part of a concat: the concat, and where the part's domain is in it.
  struct Part {
    Tensor whole;
    View view = {};
  };
  std::optional<Part> part(int unit) const;
  /// Makes other kernels read a part's value in its concat, so that it needs no slot of its own; false if that would be
  /// slower. Call it if the part's kernel computes the value and the others read it without a view.
  bool store_in_concat(int part);
  /// The storage from which x is read.
  Source source(const Tensor& x, Reading reading = Reading::any);
  /// Where a unit that is no copy stores its value, seen from the unit's positions.
  View stored(int unit) const;
  /// The unit or concat that can compute a root straight into a slot of its shape with these strides, if any can.
  std::optional<Tensor> claimable(const Tensor& root, const Strides& strides) const;
  /// The strides of a copy's own slot.
  const Strides& strides_of_copy(int unit) const { return strides_of_copy_.at(unit); }
  /// Makes a copy of x that is written to a slot of its own.
  int copy(const Tensor& x);
  /// Finds all edges. Call it once, after the copies that roots need are made.
  void connect();

 private:
  Source copied(const Tensor& x, const Strides& strides);
  void add_parts(const Tensor& concat);
  bool can_be_read_at(const View& view, const Tensor& x) const;
  void shape_alike(const std::vector<int>& parts);
  bool suits(const View& view, const Tensor& x, Reading reading) const;
  const Layout& layout_;
  std::deque<FusionNode> units_;
  std::vector<Edge> edges_;
  std::unordered_map<const Node*, int> unit_of_;
  std::unordered_map<const Node*, int> readers_;  // how many nodes and roots read a node
  struct Home {
    Part place;
    std::size_t first = 0, last = 0;  // of the concat's parts
  };
  std::unordered_map<const Node*, Home> home_;  // values that are stored in a concat alone
  std::unordered_set<const Node*> read_by_heads_;
  std::unordered_set<const Node*> inner_;  // concats whose parts are those of another
  std::map<std::pair<const Node*, Strides>, int> copy_of_;
  std::unordered_map<int, Strides> strides_of_copy_;
  std::unordered_map<const Node*, std::vector<int>> parts_of_;
  std::unordered_map<int, Part> part_;
};

}  // namespace nixie
