// Finds the axes along which padded arrays are side by side.
#include "nixie/core/passes/padded_terms.h"

#include <algorithm>
#include <map>

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

}  // namespace nixie
