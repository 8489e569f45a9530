// Single ops as ONNX nodes.
#include "nixie/models/io/onnx/ops.h"

#include <algorithm>
#include <limits>

namespace nixie {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes wide(const std::vector<int>& values) { return {values.begin(), values.end()}; }

Sizes twice(const std::vector<int>& values) {
  Sizes all = wide(values);
  all.insert(all.end(), values.begin(), values.end());
  return all;
}

// The windows of `op` from axis `first` of its lists on.
std::string pool(OnnxGraph& graph, const Pool& op, const std::string& input, const Shape& from, const Shape& to,
                 std::size_t first) {
  Sizes window, stride, low, high, dilation;
  for (std::size_t i = first; i < op.window.size(); ++i) {
    const int axis = static_cast<int>(i - first) + 2;
    window.push_back(op.window[i]);
    stride.push_back(op.stride[i]);
    low.push_back(op.pad[i]);
    const std::int64_t step = op.dilation.empty() ? 1 : op.dilation[i], extent = step * (op.window[i] - 1) + 1;
    dilation.push_back(step);
    // The last window ends where the node's shape says.
    high.push_back(std::max<std::int64_t>(0, (to[axis] - 1) * op.stride[i] + extent - from[axis] - op.pad[i]));
  }
  low.insert(low.end(), high.begin(), high.end());
  OnnxAttributes attributes = {{"kernel_shape", window}, {"strides", stride}, {"pads", low}};
  if (!op.dilation.empty()) attributes.push_back({"dilations", dilation});
  if (op.kind == PoolKind::max) return graph.add("MaxPool", {input}, attributes);
  check(op.dilation.empty(), "onnx: average pooling over dilated windows needs opset 19, the export writes opset 17");
  attributes.push_back({"count_include_pad", std::int64_t{op.count_pad}});
  return graph.add("AveragePool", {input}, attributes);
}

}  // namespace

std::string add_op(OnnxGraph& graph, const Conv& op, const Tensor& x, const std::vector<std::string>& inputs) {
  check(op.role != ConvRole::filter_grad, "onnx: the model computes a filter gradient, which ONNX does not support");
  OnnxAttributes attributes = {{"strides", wide(op.stride)},
                               {"pads", twice(op.pad)},
                               {"dilations", wide(op.dilation)},
                               {"group", std::int64_t{op.groups}}};
  if (op.role == ConvRole::output) return graph.add("Conv", inputs, attributes);
  Sizes extra, pads = twice(op.pad);  // the output's size is the node's
  const Shape &from = x.inputs()[0].shape(), &filter = x.inputs()[1].shape();
  for (std::size_t i = 0; i < op.stride.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    extra.push_back(x.shape()[axis] -
                    ((from[axis] - 1) * op.stride[i] - 2 * op.pad[i] + op.dilation[i] * (filter[axis] - 1) + 1));
  }
  // Runtimes take an output_padding below the stride alone: what is more is padding that is not cropped.
  for (std::size_t i = 0; i < extra.size(); ++i) {
    if (extra[i] < op.stride[i]) continue;
    const std::int64_t kept = std::min<std::int64_t>(extra[i], op.pad[i]);
    check(extra[i] - kept < op.stride[i], "onnx: a deconv with output_pad ", extra[i], ", stride ", op.stride[i],
          " and pad ", op.pad[i], ", which ONNX does not support");
    pads[extra.size() + i] -= kept;
    extra[i] -= kept;
  }
  attributes[1] = {"pads", pads};
  attributes.push_back({"output_padding", extra});
  return graph.add("ConvTranspose", inputs, attributes);
}

std::string add_op(OnnxGraph& graph, const Reduce& op, const Tensor&, const std::vector<std::string>& inputs) {
  const std::string& from = inputs[0];
  const Sizes axes = wide(op.axes);
  const auto reduced = [&](const char* name) { return graph.add(name, {from}, {{"axes", axes}}); };
  const auto position = [&](const char* name) {
    check(axes.size() == 1, "onnx: ", name, " over several axes, which ONNX does not support");
    const std::string index = graph.add(name, {from}, {{"axis", axes[0]}});
    return graph.add("Cast", {index}, {{"to", std::int64_t{static_cast<int>(OnnxType::i32)}}});
  };
  const auto summed = [&](const std::string& values) { return graph.add("ReduceSum", {values, graph.numbers(axes)}); };
  switch (op.kind) {
    case ReduceKind::sum:
      return summed(from);
    case ReduceKind::mean:
      return reduced("ReduceMean");
    case ReduceKind::max:
      return reduced("ReduceMax");
    case ReduceKind::min:
      return reduced("ReduceMin");
    case ReduceKind::prod:
      return reduced("ReduceProd");
    case ReduceKind::argmax:
      return position("ArgMax");
    case ReduceKind::argmin:
      return position("ArgMin");
    case ReduceKind::m2:
      break;
  }
  const std::string distance = graph.add("Sub", {from, reduced("ReduceMean")});
  return summed(graph.add("Mul", {distance, distance}));
}

std::string add_op(OnnxGraph& graph, const Reshape&, const Tensor& x, const std::vector<std::string>& inputs) {
  const Shape& from = x.inputs()[0].shape();
  Sizes sizes = x.shape().sizes();
  const bool keeps_batch = !sizes.empty() && sizes[0] == kOnnxBatch && from.rank() > 0 && from[0] == kOnnxBatch;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] % kOnnxBatch != 0 || sizes[i] == 0) continue;
    sizes[i] = i == 0 && keeps_batch ? 0 : -1;
  }
  return graph.add("Reshape", {inputs[0], graph.numbers(sizes)});
}
std::string add_op(OnnxGraph& graph, const Permute& op, const Tensor&, const std::vector<std::string>& inputs) {
  return graph.add("Transpose", {inputs[0]}, {{"perm", wide(op.order)}});
}
std::string add_op(OnnxGraph& graph, const Concat& op, const Tensor&, const std::vector<std::string>& inputs) {
  return graph.add("Concat", inputs, {{"axis", std::int64_t{op.axis}}});
}
std::string add_op(OnnxGraph& graph, const Slice& op, const Tensor& x, const std::vector<std::string>& inputs) {
  Sizes starts, ends, axes, steps;
  const Shape& from = x.inputs()[0].shape();
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (op.start[at] == 0 && op.step[at] == 1 && x.shape()[axis] == from[axis]) continue;
    check(from[axis] != kOnnxBatch, "onnx: the model takes single samples out of a batch");
    const std::int64_t end = op.start[at] + x.shape()[axis] * op.step[at];
    starts.push_back(op.start[at]);
    ends.push_back(end < 0 ? std::numeric_limits<std::int64_t>::min() : end);
    axes.push_back(axis);
    steps.push_back(op.step[at]);
  }
  return graph.add("Slice",
                   {inputs[0], graph.numbers(starts), graph.numbers(ends), graph.numbers(axes), graph.numbers(steps)});
}
std::string add_op(OnnxGraph& graph, const Pad& op, const Tensor& x, const std::vector<std::string>& inputs) {
  Sizes pads = op.low;
  pads.insert(pads.end(), op.high.begin(), op.high.end());
  return graph.add("Pad", {inputs[0], graph.numbers(pads), graph.number(op.value, x.dtype())});
}
std::string add_op(OnnxGraph& graph, const Gather& op, const Tensor&, const std::vector<std::string>& inputs) {
  return graph.add("Gather", {inputs[0], inputs[1]}, {{"axis", std::int64_t{op.axis}}});
}
std::string add_op(OnnxGraph&, const Scatter&, const Tensor&, const std::vector<std::string>&) {
  fail(Fault::usage, "onnx: the model scatters, which the export does not support");
}
std::string add_op(OnnxGraph&, const ArgSort&, const Tensor&, const std::vector<std::string>&) {
  fail(Fault::usage, "onnx: the model sorts, which the export does not support");
}
std::string add_op(OnnxGraph&, const Collective&, const Tensor&, const std::vector<std::string>&) {
  fail(Fault::usage, "onnx: the model asks other ranks for values, which the export does not support");
}
std::string add_op(OnnxGraph& graph, const Scan& op, const Tensor&, const std::vector<std::string>& inputs) {
  check(op.kind == ReduceKind::sum, "onnx: the model scans by ", to_string(op.kind), ", which ONNX does not support");
  return graph.add("CumSum", {inputs[0], graph.number(op.axis, Dtype::i64)},
                   {{"exclusive", std::int64_t{op.exclusive}}, {"reverse", std::int64_t{op.reverse}}});
}
std::string add_op(OnnxGraph&, const Random&, const Tensor&, const std::vector<std::string>&) {
  fail(Fault::usage, "onnx: the model draws random numbers in evaluation, which the export does not support");
}

std::string add_op(OnnxGraph& graph, const Pool& op, const Tensor& x, const std::vector<std::string>& inputs) {
  check(op.role == PoolRole::output,
        "onnx: the model reads the positions of maxima, which the export does not support");
  if (op.window[0] == 1 && op.stride[0] == 1 && op.pad[0] == 0)
    return pool(graph, op, inputs[0], x.inputs()[0].shape(), x.shape(), 1);
  // Windows over channels: channels become an axis of the image; axes without windows become one.
  const Shape& from = x.inputs()[0].shape();
  const bool channels_only = std::all_of(op.window.begin() + 1, op.window.end(), [](int size) { return size == 1; });
  Sizes sizes = {0, 1};
  Pool image = op;
  if (channels_only) {
    sizes.insert(sizes.end(), {from[1], -1});
    image.window = {op.window[0], 1}, image.stride = {op.stride[0], 1}, image.pad = {op.pad[0], 0};
    image.dilation = {};
  } else {
    sizes.insert(sizes.end(), from.begin() + 1, from.end());
  }
  const auto shape_of = [&](const Shape& shape) {  // its spatial sizes as the image has them
    Sizes all = {kOnnxBatch, 1, shape[1]};
    if (channels_only)
      all.push_back(shape.size() / (shape[0] * shape[1]));
    else
      all.insert(all.end(), shape.begin() + 2, shape.end());
    return Shape(all);
  };
  const std::string images = graph.add("Reshape", {inputs[0], graph.numbers(sizes)});
  const std::string pooled = pool(graph, image, images, shape_of(from), shape_of(x.shape()), 0);
  Sizes back = x.shape().sizes();
  back[0] = 0;
  return graph.add("Reshape", {pooled, graph.numbers(back)});
}

}  // namespace nixie
