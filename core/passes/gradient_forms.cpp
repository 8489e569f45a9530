// Joins padded arrays that are side by side, and moves gates from behind a max pooling's gradient to before it.
#include "nixie/core/passes/gradient_forms.h"

#include <algorithm>
#include <map>
#include <utility>

namespace nixie {
namespace {

// Along each axis, from the first position to behind the last.
using Box = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Placed {
  Tensor array;
  Box box;
};

Shape shape_of(const Box& box) {
  std::vector<std::int64_t> sizes;
  for (const auto& [low, high] : box) sizes.push_back(high - low);
  return Shape(std::move(sizes));
}

// The arrays by their range along an axis, if these ranges follow each other without gaps from one end of the box to
// the other.
std::optional<std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Placed>>> along(
    int axis, const std::vector<Placed>& arrays, const Box& box) {
  const auto at = static_cast<std::size_t>(axis);
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Placed>> ranges;
  for (const Placed& one : arrays) ranges[one.box[at]].push_back(one);
  std::int64_t end = box[at].first;
  for (const auto& [range, found] : ranges) {
    if (range.first != end) return {};
    end = range.second;
  }
  return end == box[at].second && ranges.size() > 1 ? std::optional(std::move(ranges)) : std::nullopt;
}

// Each axis is divided once.
std::optional<Tensor> joined(const std::vector<Placed>& arrays, const Box& box, Axes divided, const MakeNode& make) {
  if (arrays.size() == 1) return arrays[0].box == box ? std::optional(arrays[0].array) : std::nullopt;
  for (int axis = 0; axis < static_cast<int>(box.size()); ++axis) {
    if (std::count(divided.begin(), divided.end(), axis)) continue;
    const auto ranges = along(axis, arrays, box);
    if (!ranges) continue;
    divided.push_back(axis);
    std::vector<Tensor> parts;
    for (const auto& [range, found] : *ranges) {
      Box inside = box;
      inside[static_cast<std::size_t>(axis)] = range;
      const std::optional<Tensor> part = joined(found, inside, divided, make);
      if (!part) return {};
      parts.push_back(*part);
    }
    return make(Concat{axis}, std::move(parts), shape_of(box), arrays[0].array.dtype());
  }
  return {};
}

const Pool* max_pool_of(const Tensor& x, PoolRole role) {
  const auto* pool = std::get_if<Pool>(&x.node().op);
  return pool && pool->kind == PoolKind::max && pool->role == role ? pool : nullptr;
}

// The gate for y = max_pool(x) in place of x; none if it is made of anything but x and numbers.
std::optional<Tensor> gate_of_pooled(const Tensor& gate, const Tensor& x, const Tensor& y, const MakeNode& make) {
  if (!std::holds_alternative<Map>(gate.node().op) || gate.dtype() != Dtype::boolean) return {};
  std::vector<Tensor> inputs;
  for (const Tensor& input : gate.inputs()) {
    const auto* number = std::get_if<Constant>(&input.node().op);
    if (input.id() == x.id())
      inputs.push_back(y);
    else if (number)
      inputs.push_back(make(*number, {}, input.shape() == x.shape() ? y.shape() : input.shape(), input.dtype()));
    else
      return {};
  }
  return make(gate.node().op, std::move(inputs), y.shape(), Dtype::boolean);
}

}  // namespace

std::optional<Tensor> concat_of_padded(const std::vector<Tensor>& terms, const MakeNode& make) {
  std::vector<Placed> arrays;
  std::int64_t filled = 0;
  for (const Tensor& term : terms) {
    const auto* pad = std::get_if<Pad>(&term.node().op);
    if (!pad || pad->value != 0) return {};
    const Tensor& array = term.inputs()[0];
    Box box;
    for (int axis = 0; axis < array.rank(); ++axis) {
      const std::int64_t low = pad->low[static_cast<std::size_t>(axis)], size = array.shape()[axis];
      box.emplace_back(low, low + size);
    }
    filled += array.shape().size();
    arrays.push_back({array, std::move(box)});
  }
  if (arrays.empty() || filled == 0 || filled != terms[0].shape().size()) return {};
  Box whole;
  for (std::int64_t size : terms[0].shape()) whole.emplace_back(0, size);
  return joined(arrays, whole, {}, make);
}

std::optional<Tensor> gated_before_pooling(const Map& mul, const std::vector<Tensor>& factors, Dtype dtype,
                                           const MakeNode& make) {
  for (const std::size_t i : {0, 1}) {
    const Tensor& dx = factors[i];
    const Pool* pool = max_pool_of(dx, PoolRole::input_grad);
    if (!pool || dx.dtype() != dtype || dx.inputs()[0].dtype() != dtype) continue;
    const Tensor &dy = dx.inputs()[0], &index = dx.inputs()[1];
    if (!max_pool_of(index, PoolRole::index)) continue;
    const Tensor& x = index.inputs()[0];
    Pool forward = *pool;
    forward.role = PoolRole::output;
    const auto gate = gate_of_pooled(factors[1 - i], x, make(forward, {x}, dy.shape(), x.dtype()), make);
    if (!gate) continue;
    std::vector<Tensor> gated{dy, *gate};
    if (i == 1) std::swap(gated[0], gated[1]);
    return make(*pool, {make(mul, std::move(gated), dy.shape(), dtype), index}, dx.shape(), dtype);
  }
  return {};
}

}  // namespace nixie
