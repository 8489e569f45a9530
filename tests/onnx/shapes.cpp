// ONNX's ops that make, view and join arrays.
#include <algorithm>
#include <numeric>

#include "nixie/tests/onnx/node.h"

namespace nixie::onnx_nodes {
namespace {

using Ints = std::vector<std::int64_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Tensor reshape_of(const Node& node) {
  const Tensor& x = node.in(0);
  Ints sizes = node.ints(1, "shape").value();
  if (!node.integer("allowzero", 0))
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0) sizes[i] = x.shape()[static_cast<int>(i)];
  return reshape(x, sizes);
}

Tensor transpose_of(const Node& node) {
  if (!node.has("perm")) return transpose(node.in(0));
  return permute(node.in(0), to_axes(node.ints("perm")));
}

Tensor flatten_of(const Node& node) {
  const Tensor& x = node.in(0);
  std::int64_t axis = node.integer("axis", 1), rows = 1;
  if (axis < 0) axis += x.rank();
  for (int i = 0; i < axis; ++i) rows *= x.shape()[i];
  return reshape(x, Shape{rows, rows == 0 ? 0 : x.shape().size() / rows});
}

Tensor squeeze_of(const Node& node) {
  const Tensor& x = node.in(0);
  if (const auto axes = node.ints(1, "axes")) return squeeze(x, to_axes(*axes));
  Axes ones;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.shape()[axis] == 1) ones.push_back(axis);
  return squeeze(x, ones);
}

Results split_of(const Node& node) {
  const Tensor& x = node.in(0);
  const int axis = x.shape().normal_axis(static_cast<int>(node.integer("axis", 0)));
  const auto count = static_cast<std::int64_t>(node.outputs()), size = x.shape()[axis];
  Ints sizes = node.ints(1, "split").value_or(Ints(node.outputs(), (size + count - 1) / count));
  if (!node.has(1) && !node.has("split")) sizes.back() = size - (count - 1) * sizes[0];
  Results parts;
  std::int64_t first = 0;
  for (const std::int64_t part : sizes) {
    std::vector<Index> indices(at(axis), Index::all());
    indices.push_back(Index::range(first, first + part));
    parts.push_back(slice(x, indices));
    first += part;
  }
  return parts;
}

Tensor slice_of(const Node& node) {
  const Tensor& x = node.in(0);
  const Ints starts = node.ints(1, "starts").value(), ends = node.ints(2, "ends").value();
  Ints axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.ints(3, "axes").value_or(axes);
  const Ints steps = node.has(4) ? node.ints(4) : Ints(starts.size(), 1);
  std::vector<Index> indices(at(x.rank()), Index::all());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int axis = x.shape().normal_axis(static_cast<int>(axes[i]));
    const std::int64_t size = x.shape()[axis];
    // With a negative step, an end before the first element means no end; numpy takes -1 for the last element.
    const bool to_start = steps[i] < 0 && ends[i] < -size;
    const auto stop = to_start ? std::optional<std::int64_t>() : ends[i];
    indices[at(axis)] = Index::range(starts[i], stop, steps[i]);
  }
  return slice(x, indices);
}

// Positions along an axis of what a padded axis shows.
Tensor padded_positions(std::int64_t size, std::int64_t low, std::int64_t high, const std::string& mode) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = -low; i < size + high; ++i) {
    const std::int64_t period = std::max<std::int64_t>(2 * (size - 1), 1);
    const std::int64_t turn = ((i % period) + period) % period;
    positions.push_back(mode == "edge"   ? std::clamp<std::int64_t>(i, 0, size - 1)
                        : mode == "wrap" ? ((i % size) + size) % size
                                         : std::min(turn, period - turn));
  }
  return Array::from(positions, {static_cast<std::int64_t>(positions.size())}).to(Dtype::i32);
}

Tensor pad_of(const Node& node) {
  Tensor x = node.in(0);
  const Ints pads = node.ints(1, "pads").value();
  const std::string mode = node.text("mode", "constant");
  Ints axes(pads.size() / 2);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.has(3)) axes = node.ints(3);
  Ints low(at(x.rank()), 0), high = low;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = at(x.shape().normal_axis(static_cast<int>(axes[i])));
    low[axis] = pads[i], high[axis] = pads[i + axes.size()];
  }
  std::vector<Index> kept;  // negative padding cuts
  for (std::size_t axis = 0; axis < low.size(); ++axis) {
    kept.push_back(Index::range(std::max<std::int64_t>(-low[axis], 0),
                                x.shape()[static_cast<int>(axis)] - std::max<std::int64_t>(-high[axis], 0)));
    low[axis] = std::max<std::int64_t>(low[axis], 0), high[axis] = std::max<std::int64_t>(high[axis], 0);
  }
  x = slice(x, kept);
  if (mode == "constant") return pad(x, low, high, node.has(2) ? node.in(2).item() : node.number("value", 0));
  for (int axis = 0; axis < x.rank(); ++axis)
    if (low[at(axis)] || high[at(axis)])
      x = take(x, padded_positions(x.shape()[axis], low[at(axis)], high[at(axis)], mode), axis);
  return x;
}

Tensor expand_of(const Node& node) {
  const Tensor& x = node.in(0);
  return broadcast_to(x, broadcast(x.shape(), Shape(node.ints(1))));
}

Tensor numbers_of(const Ints& values) { return Array::from(values, {static_cast<std::int64_t>(values.size())}); }

Tensor shape_of(const Node& node) {
  const Ints& sizes = node.in(0).shape().sizes();
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const auto position = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const std::int64_t first = position(node.integer("start", 0)), last = position(node.integer("end", rank));
  return numbers_of(Ints(sizes.begin() + first, sizes.begin() + std::max(first, last)));
}

Tensor constant_of(const Node& node) {
  if (node.has_tensor("value")) return node.tensor("value");
  if (node.has("value_int")) return Array::from(Ints{node.integer("value_int", 0)}, {});
  if (node.has("value_ints")) return numbers_of(node.ints("value_ints"));
  if (node.has("value_float"))
    return Array::from(std::vector<float>{static_cast<float>(node.number("value_float", 0))}, {});
  if (!node.has("value_floats")) throw Outside{"strings"};
  const std::vector<double> values = node.numbers("value_floats");
  return Array::from(std::vector<float>(values.begin(), values.end()), {static_cast<std::int64_t>(values.size())});
}

Tensor constant_of_shape(const Node& node) {
  const Shape shape(node.ints(0));
  if (!node.has_tensor("value")) return zeros(shape);
  return broadcast_to(reshape(Tensor(node.tensor("value")), Ints{}), shape);
}

Tensor range_of(const Node& node) {
  const double start = node.in(0).item(), limit = node.in(1).item(), delta = node.in(2).item();
  const auto count = static_cast<std::int64_t>(std::max(std::ceil((limit - start) / delta), 0.0));
  return cast(arange(count) * delta + start, node.in(0).dtype());
}

Tensor eye_like(const Node& node) {
  const Shape& shape = node.in(0).shape();
  const Dtype dtype = node.has("dtype") ? dtype_of_number(node.integer("dtype", 1)) : node.in(0).dtype();
  return cast(coordinate(shape, 1) - coordinate(shape, 0) == node.integer("k", 0), dtype);
}

Tensor trilu(const Node& node) {
  const std::int64_t diagonal = node.has(1) ? node.ints(1)[0] : 0;
  return node.integer("upper", 1) ? triu(node.in(0), diagonal) : tril(node.in(0), diagonal);
}

Tensor depth_to_space(const Node& node) {
  const Tensor& x = node.in(0);
  const std::int64_t b = node.integer("blocksize", 1), c = x.shape()[1] / (b * b), h = x.shape()[2], w = x.shape()[3];
  const bool by_column = node.text("mode", "DCR") == "CRD";
  const Tensor split = reshape(x, by_column ? Ints{-1, c, b, b, h, w} : Ints{-1, b, b, c, h, w});
  return reshape(permute(split, by_column ? Axes{0, 1, 4, 2, 5, 3} : Axes{0, 3, 4, 1, 5, 2}),
                 Ints{-1, c, h * b, w * b});
}

Tensor space_to_depth(const Node& node) {
  const Tensor& x = node.in(0);
  const std::int64_t b = node.integer("blocksize", 1), c = x.shape()[1], h = x.shape()[2] / b, w = x.shape()[3] / b;
  const bool by_column = node.text("mode", "DCR") == "CRD";
  const Tensor split = reshape(x, Ints{-1, c, h, b, w, b});
  return reshape(permute(split, by_column ? Axes{0, 1, 3, 5, 2, 4} : Axes{0, 3, 5, 1, 2, 4}),
                 Ints{-1, c * b * b, h, w});
}

Tensor center_crop_pad(const Node& node) {
  Tensor x = node.in(0);
  const Ints sizes = node.ints(1);
  Ints axes(sizes.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.ints("axes", axes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const int axis = x.shape().normal_axis(static_cast<int>(axes[i]));
    const std::int64_t more = sizes[i] - x.shape()[axis], before = more / 2;
    if (more < 0) {
      std::vector<Index> indices(at(axis), Index::all());
      const std::int64_t first = -more / 2;
      indices.push_back(Index::range(first, first + sizes[i]));
      x = slice(x, indices);
    } else {
      Ints low(at(x.rank()), 0), high = low;
      low[at(axis)] = before, high[at(axis)] = more - before;
      x = pad(x, low, high);
    }
  }
  return x;
}

}  // namespace

void add_shapes(Functions& functions) {
  const std::map<std::string, Tensor (*)(const Node&)> one = {{"Reshape", reshape_of},
                                                              {"Transpose", transpose_of},
                                                              {"Flatten", flatten_of},
                                                              {"Squeeze", squeeze_of},
                                                              {"Slice", slice_of},
                                                              {"Pad", pad_of},
                                                              {"Expand", expand_of},
                                                              {"Shape", shape_of},
                                                              {"Constant", constant_of},
                                                              {"ConstantOfShape", constant_of_shape},
                                                              {"Range", range_of},
                                                              {"EyeLike", eye_like},
                                                              {"Trilu", trilu},
                                                              {"DepthToSpace", depth_to_space},
                                                              {"SpaceToDepth", space_to_depth},
                                                              {"CenterCropPad", center_crop_pad}};
  for (const auto& [name, function] : one)
    functions[name] = [f = function](const Node& node) { return Results{f(node)}; };
  functions["Split"] = split_of;
  functions["Unsqueeze"] = [](const Node& node) {
    return Results{expand_dims(node.in(0), to_axes(node.ints(1, "axes").value()))};
  };
  functions["Concat"] = [](const Node& node) {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < node.size(); ++i) parts.push_back(node.in(i));
    return Results{concat(parts, static_cast<int>(node.integer("axis", 1)))};
  };
  functions["Tile"] = [](const Node& node) { return Results{tile(node.in(0), node.ints(1))}; };
  functions["Size"] = [](const Node& node) { return Results{Array::from(Ints{node.in(0).shape().size()}, {})}; };
}

}  // namespace nixie::onnx_nodes
