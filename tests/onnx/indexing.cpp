// ONNX's ops that gather, scatter and order elements.
#include <algorithm>

#include "nixie/tests/onnx/node.h"

namespace nixie::onnx_nodes {
namespace {

using Ints = std::vector<std::int64_t>;

int axis_of(const Node& node, std::int64_t otherwise) {
  return node.in(0).shape().normal_axis(static_cast<int>(node.integer("axis", otherwise)));
}

std::int64_t product(const Ints& sizes, std::size_t first, std::size_t last) {
  std::int64_t result = 1;
  for (std::size_t i = first; i < last; ++i) result *= sizes[i];
  return result;
}

// An index as a position of an axis: negative ones count from its end.
Tensor wrapped(const Tensor& index, std::int64_t size) { return where(index < 0, index + size, index); }

// Row-major positions in `shape` of the elements at indices along one axis.
Tensor positions_along(const Tensor& indices, const Shape& shape, int axis) {
  const Strides strides = shape.row_major();
  Tensor position = wrapped(indices, shape[axis]) * strides[static_cast<std::size_t>(axis)];
  for (int other = 0; other < shape.rank(); ++other)
    if (other != axis)
      position = position + coordinate(indices.shape(), other) * strides[static_cast<std::size_t>(other)];
  return position;
}

// For ONNX's GatherND and ScatterND: row-major positions of the tuples in an array whose leading axes they name.
Tensor positions_of_tuples(const Tensor& tuples, const Ints& sizes) {
  Tensor position = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<Index> part(static_cast<std::size_t>(tuples.rank() - 1), Index::all());
    part.push_back(static_cast<std::int64_t>(i));
    position = position * sizes[i] + wrapped(slice(tuples, part), sizes[i]);
  }
  return position;
}

Tensor scattered(const Tensor& x, const Tensor& positions, const Tensor& updates, const std::string& reduction) {
  if (reduction == "none") return scatter(x, positions, updates);
  if (reduction == "add") return x + scatter_add(x.shape(), positions, updates);
  if (reduction == "mul") return scatter_mul(x, positions, updates);
  if (reduction == "max") return scatter_max(x, positions, updates);
  if (reduction == "min") return scatter_min(x, positions, updates);
  throw Outside{"no scatter with " + reduction};
}

Tensor scatter_elements(const Node& node) {
  const Tensor& x = node.in(0);
  const Tensor positions = positions_along(node.in(1), x.shape(), axis_of(node, 0));
  const Tensor flat = scattered(reshape(x, Ints{-1}), reshape(positions, Ints{-1}), reshape(node.in(2), Ints{-1}),
                                node.text("reduction", "none"));
  return reshape(flat, x.shape());
}

Tensor gather_nd(const Node& node) {
  const Tensor &x = node.in(0), &tuples = node.in(1);
  const auto batch_axes = static_cast<std::size_t>(node.integer("batch_dims", 0));
  const auto length = static_cast<std::size_t>(tuples.shape()[-1]);
  const Ints& sizes = x.shape().sizes();
  const Ints batch(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(batch_axes));
  const std::size_t inner = batch_axes + length;
  const std::int64_t batches = product(sizes, 0, batch_axes), elements = product(sizes, batch_axes, inner);
  Tensor positions = positions_of_tuples(tuples, Ints(sizes.begin() + static_cast<std::ptrdiff_t>(batch_axes),
                                                      sizes.begin() + static_cast<std::ptrdiff_t>(inner)));
  Ints shape = positions.shape().sizes();
  positions = reshape(positions, Ints{batches, -1});
  positions = positions + coordinate(positions.shape(), 0) * elements;
  shape.insert(shape.end(), sizes.begin() + static_cast<std::ptrdiff_t>(inner), sizes.end());
  return reshape(
      take(reshape(x, Ints{batches * elements, product(sizes, inner, sizes.size())}), reshape(positions, Ints{-1})),
      shape);
}

Tensor scatter_nd(const Node& node) {
  const Tensor &x = node.in(0), &tuples = node.in(1);
  const auto length = static_cast<std::size_t>(tuples.shape()[-1]);
  const Ints& sizes = x.shape().sizes();
  const std::int64_t inner = product(sizes, length, sizes.size());
  const Tensor positions =
      positions_of_tuples(tuples, Ints(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(length)));
  const Tensor flat = scattered(reshape(x, Ints{-1, inner}), reshape(positions, Ints{-1}),
                                reshape(node.in(2), Ints{-1, inner}), node.text("reduction", "none"));
  return reshape(flat, x.shape());
}

Tensor one_hot_of(const Node& node) {
  const std::int64_t depth = node.ints(1)[0];
  const Tensor index = cast(node.in(0), Dtype::i64), values = node.in(2);
  const Tensor hot = one_hot(wrapped(index, depth), depth, Dtype::boolean, static_cast<int>(node.integer("axis", -1)));
  return where(hot, slice(values, {1}), slice(values, {0}));
}

Tensor reverse_sequence(const Node& node) {
  const Tensor& x = node.in(0);
  const int time = static_cast<int>(node.integer("time_axis", 0)),
            batch = static_cast<int>(node.integer("batch_axis", 1));
  Ints sizes(static_cast<std::size_t>(x.rank()), 1);
  sizes[static_cast<std::size_t>(batch)] = x.shape()[batch];
  const Tensor length = cast(reshape(node.in(1), sizes), Dtype::i32), t = coordinate(x.shape(), time);
  return take_along_axis(x, where(t < length, length - 1 - t, t), time);
}

Results topk_of(const Node& node) {
  const std::int64_t k = node.has(1) ? node.ints(1)[0] : node.integer("k", 1);
  const Sorted found = topk(node.in(0), k, axis_of(node, -1), node.integer("largest", 1) != 0);
  return {found.values, cast(found.indices, Dtype::i64)};
}

Tensor hardmax(const Node& node) {
  const Tensor& x = node.in(0);
  const int axis = axis_of(node, node.opset() < 13 ? 1 : -1);
  return cast(one_hot(argmax(x, {axis}, false), x.shape()[axis], Dtype::boolean, axis), x.dtype());
}

// CumSum and CumProd.
template <Tensor (*scan)(const Tensor&, int, ScanOptions)>
Tensor scanned(const Node& node) {
  const auto axis = static_cast<int>(node.ints(1)[0]);
  return cast(scan(node.in(0), axis, {node.integer("reverse", 0) != 0, node.integer("exclusive", 0) != 0}),
              node.in(0).dtype());
}

}  // namespace

void add_indexing(Functions& functions) {
  const std::map<std::string, Tensor (*)(const Node&)> one = {{"ScatterElements", scatter_elements},
                                                              {"Scatter", scatter_elements},
                                                              {"GatherND", gather_nd},
                                                              {"ScatterND", scatter_nd},
                                                              {"OneHot", one_hot_of},
                                                              {"ReverseSequence", reverse_sequence},
                                                              {"Hardmax", hardmax},
                                                              {"CumSum", scanned<cumsum>},
                                                              {"CumProd", scanned<cumprod>}};
  for (const auto& [name, function] : one)
    functions[name] = [f = function](const Node& node) { return Results{f(node)}; };
  functions["TopK"] = topk_of;
  functions["Gather"] = [](const Node& node) { return Results{take(node.in(0), node.in(1), axis_of(node, 0))}; };
  functions["GatherElements"] = [](const Node& node) {
    const int axis = axis_of(node, 0);
    return Results{take_along_axis(node.in(0), node.in(1), axis)};
  };
  for (const char* name : {"NonZero", "Compress", "Unique", "NonMaxSuppression"})
    functions[name] = [](const Node&) -> Results { throw Outside{"the result's shape depends on values"}; };
}

}  // namespace nixie::onnx_nodes
