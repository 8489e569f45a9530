// The graph of an evaluation, node by node.
#include "nixie/models/io/onnx.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <unordered_map>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/models/io/durable_file.h"
#include "nixie/models/io/onnx/formula.h"
#include "nixie/models/io/onnx/match.h"

namespace nixie {
namespace {

// The graph is traced at a batch that no other size has, so that N can be told from the rest.
constexpr std::int64_t kBatch = 1000003;
constexpr std::size_t kMaxBytes = (std::size_t{1} << 31) - 1;  // of a protobuf message
constexpr int kIrVersion = 8, kOpset = 17;

using Sizes = std::vector<std::int64_t>;

Sizes wide(const std::vector<int>& values) { return {values.begin(), values.end()}; }

Sizes twice(const std::vector<int>& values) {
  Sizes all = wide(values);
  all.insert(all.end(), values.begin(), values.end());
  return all;
}

class Exporter {
 public:
  Exporter(const Model& model, const OnnxOptions& options) : options_(options) {
    Sizes input = {kBatch};
    for (const std::int64_t size : model.input_shape()) input.push_back(size);
    images_ = placeholder(Shape(input));
    Trace trace;
    Pass pass{.training = false};
    const Tensor output = model(images_, pass);
    check(images_.dtype() == Dtype::f32 && output.dtype() == Dtype::f32, "onnx: the model computes ", output.dtype(),
          ", expected f32");
    output_ = simplify({.outputs = {output}, .sets = {}}).outputs[0];
  }

  std::string bytes() {
    for (const Tensor& node : topological({.outputs = {output_}, .sets = {}}))
      for (const Tensor& input : node.inputs()) ++uses_[input.id()];
    graph_.input(options_.input, free_batch(images_.shape()));
    const std::string result = full(output_);
    graph_.add("Identity", {result}, {}, options_.output);
    graph_.output(options_.output, free_batch(output_.shape()));
    Protobuf file;
    file.number(1, kIrVersion).text(2, "nixie").message(7, graph_.finish("nixie"));
    file.message(8, Protobuf().text(1, "").number(2, kOpset));
    for (const auto& [key, value] : options_.metadata) file.message(14, Protobuf().text(1, key).text(2, value));
    check(file.bytes().size() <= kMaxBytes, "onnx: the model takes ", file.bytes().size(),
          " bytes, a file of ONNX at most ", kMaxBytes, "; export it as safetensors");
    return file.bytes();
  }

 private:
  struct Value {
    std::string name;
    Shape shape;  ///< may have 1 where the node's shape is repeated
  };

  static Sizes free_batch(const Shape& shape) {
    Sizes sizes = shape.sizes();
    for (std::int64_t& size : sizes) size = size == kBatch ? -1 : size;
    return sizes;
  }

  /// The value of a node, as it is first needed; deep graphs are followed without recursion by the caller's order.
  const Value& value(const Tensor& x) {
    std::vector<Tensor> stack = {x};
    while (!stack.empty()) {
      const Tensor top = stack.back();
      if (values_.contains(top.id())) {
        stack.pop_back();
        continue;
      }
      const std::vector<Tensor> needed = inputs_of(top);
      const std::size_t before = stack.size();
      for (const Tensor& input : needed)
        if (!values_.contains(input.id())) stack.push_back(input);
      if (stack.size() > before) continue;
      values_[top.id()] = build(top);
      kept_.push_back(top);
      stack.pop_back();
    }
    return values_.at(x.id());
  }

  /// What `build` reads: those of a recognised layer reach past its parts.
  std::vector<Tensor> inputs_of(const Tensor& x) {
    if (const auto norm = match_batch_norm(x)) {
      const auto product = foldable(*norm);
      return {product ? product->product.inputs()[0] : norm->x};
    }
    if (const auto product = match_product(x)) return {product->product.inputs()[0]};
    std::vector<Tensor> needed;
    for (const Tensor& input : x.inputs())
      if (!as<Constant>(input)) needed.push_back(as<Expand>(input) && as<Map>(x) ? input.inputs()[0] : input);
    return needed;
  }

  std::string name_of(const Tensor& x) { return value(x).name; }

  /// The value with every size that its node has.
  std::string full(const Tensor& x) {
    const Value& found = value(x);
    return found.shape == x.shape() ? found.name : expanded(found.name, x.shape());
  }

  std::string expanded(const std::string& name, const Shape& shape) {
    return graph_.add("Expand", {name, sizes_of(shape)});
  }

  /// A shape as a constant or, where it holds N, as what the input's makes of it.
  std::string sizes_of(const Shape& shape) {
    if (std::count(shape.begin(), shape.end(), kBatch) == 0) return graph_.numbers(shape.sizes());
    if (batch_.empty())
      batch_ = graph_.add("Shape", {options_.input}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
    std::vector<std::string> parts;
    for (const std::int64_t size : shape) parts.push_back(size == kBatch ? batch_ : graph_.numbers({size}));
    return graph_.add("Concat", parts, {{"axis", std::int64_t{0}}});
  }

  std::string parameter(const VariablePointer& variable) {
    std::string& name = variables_[variable.get()];
    if (name.empty()) name = named_constant(variable->name, Variable(variable).array());
    return name;
  }

  /// A constant of this name or, where a layer that is used twice took it, of the next free one.
  std::string named_constant(const std::string& name, const Array& array) {
    std::string free = name;
    for (int i = 2; !names_.insert(free).second; ++i) free = fmt::format("{}.{}", name, i);
    graph_.constant(free, array);
    return free;
  }

  Value build(const Tensor& x) {
    if (const auto norm = match_batch_norm(x)) return {batch_norm(*norm), x.shape()};
    if (const auto found = match_product(x)) return {product(*found, {}, {}), x.shape()};
    return std::visit(overloaded{[&](const Constant& c) {
                                   return Value{graph_.number(c.value, x.dtype()), Shape(Sizes(x.rank(), 1))};
                                 },
                                 [&](const Input& input) { return leaf(x, input); }, [&](const Map&) { return map(x); },
                                 [&](const Coordinate& c) { return coordinate(x, c.axis); },
                                 [&](const Expand&) {
                                   return Value{value(x.inputs()[0]).name, value(x.inputs()[0]).shape};
                                 },
                                 [&](const auto& op) {
                                   return Value{add(op, x), x.shape()};
                                 }},
                      x.node().op);
  }

  Value leaf(const Tensor& x, const Input& input) {
    if (x.id() == images_.id() || input.name == "placeholder") return {options_.input, x.shape()};
    if (input.variable) return {parameter(input.variable), x.shape()};
    check(input.storage != nullptr, "onnx: input ", input.name, " is not the model's");
    const std::string name = "constant" + std::to_string(constants_++);
    graph_.constant(name, input.storage->read());
    return {name, x.shape()};
  }

  Value map(const Tensor& x) {
    std::vector<std::string> names;
    Sizes sizes(static_cast<std::size_t>(x.rank()), 1);
    for (const Tensor& input : x.inputs()) {
      if (as<Constant>(input)) {
        names.emplace_back();
        continue;
      }
      const Value& found = value(as<Expand>(input) ? input.inputs()[0] : input);
      names.push_back(found.name);
      for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = std::max(sizes[i], found.shape.sizes()[i]);
    }
    return {add_formula(graph_, x.node(), names), Shape(sizes)};
  }

  Value coordinate(const Tensor& x, int axis) {
    const std::int64_t size = x.shape()[axis];
    check(size != kBatch, "onnx: the model counts samples, which a file with a free batch cannot");
    Array positions(Dtype::i32, Shape(Sizes(static_cast<std::size_t>(x.rank()), 1)).with(axis, size));
    for (std::int64_t i = 0; i < size; ++i)
      positions.data<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
    const std::string name = "constant" + std::to_string(constants_++);
    graph_.constant(name, positions);
    return {name, positions.shape()};
  }

  // ---- layers ----

  std::optional<ProductMatch> foldable(const BatchNormMatch& norm) {
    if (!options_.fold_batch_norm || uses_[norm.x.id()] != 1) return std::nullopt;
    auto match = match_product(norm.x);
    const auto* conv = match ? as<Conv>(match->product) : nullptr;
    const bool alone = match && (match->product.id() == norm.x.id() || uses_[match->product.id()] == 1);
    return conv && conv->role == ConvRole::output && alone ? match : std::nullopt;
  }

  std::string batch_norm(const BatchNormMatch& norm) {
    const auto numbers = [](const VariablePointer& variable, double otherwise, std::size_t size) {
      return variable ? Variable(variable).array().to_vector<double>() : std::vector<double>(size, otherwise);
    };
    const std::vector<double> mean = numbers(norm.mean, 0, 0), var = numbers(norm.var, 0, 0),
                              weight = numbers(norm.weight, 1, mean.size()), bias = numbers(norm.bias, 0, mean.size());
    if (const auto match = foldable(norm)) {
      std::vector<double> scale, shift, before = numbers(match->bias, 0, mean.size());
      for (std::size_t c = 0; c < mean.size(); ++c) {
        scale.push_back(weight[c] / std::sqrt(var[c] + norm.eps));
        shift.push_back((before[c] - mean[c]) * scale[c] + bias[c]);
      }
      return product(*match, scale, shift);
    }
    const auto channel_constant = [&](const VariablePointer& variable, const std::vector<double>& values) {
      if (variable) return parameter(variable);
      const std::string name = "constant" + std::to_string(constants_++);
      graph_.constant(name, Array::from(values, {static_cast<std::int64_t>(values.size())}).to(Dtype::f32));
      return name;
    };
    return graph_.add("BatchNormalization",
                      {full(norm.x), channel_constant(norm.weight, weight), channel_constant(norm.bias, bias),
                       parameter(norm.mean), parameter(norm.var)},
                      {{"epsilon", static_cast<float>(norm.eps)}});
  }

  /// `scale` and `shift`, where given, are what a batch norm behind the convolution does to each output channel.
  std::string product(const ProductMatch& match, const std::vector<double>& scale, const std::vector<double>& shift) {
    std::vector<std::string> inputs = {full(match.product.inputs()[0])};
    if (scale.empty()) {
      inputs.push_back(parameter(match.weight));
      if (match.bias) inputs.push_back(parameter(match.bias));
    } else {
      std::vector<double> weight = Variable(match.weight).array().to_vector<double>();
      const std::size_t per_channel = weight.size() / scale.size();
      for (std::size_t i = 0; i < weight.size(); ++i) weight[i] *= scale[i / per_channel];
      inputs.push_back(named_constant(match.weight->name, Array::from(weight, match.weight->shape).to(Dtype::f32)));
      const std::string bias = match.bias ? match.bias->name : match.weight->name + ".bias";
      inputs.push_back(
          named_constant(bias, Array::from(shift, {static_cast<std::int64_t>(shift.size())}).to(Dtype::f32)));
    }
    if (const auto* conv = as<Conv>(match.product)) return convolution(*conv, match.product, inputs);
    return graph_.add("Gemm", inputs, {{"transB", std::int64_t{1}}});
  }

  std::string convolution(const Conv& op, const Tensor& x, const std::vector<std::string>& inputs) {
    check(op.role != ConvRole::filter_grad, "onnx: the model computes a filter gradient, which ONNX does not support");
    OnnxAttributes attributes = {{"strides", wide(op.stride)},
                                 {"pads", twice(op.pad)},
                                 {"dilations", wide(op.dilation)},
                                 {"group", std::int64_t{op.groups}}};
    if (op.role == ConvRole::output) return graph_.add("Conv", inputs, attributes);
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
    return graph_.add("ConvTranspose", inputs, attributes);
  }

  // ---- ops ----

  std::string add(const Conv& op, const Tensor& x) {
    return convolution(op, x, {full(x.inputs()[0]), full(x.inputs()[1])});
  }
  std::string add(const Matmul&, const Tensor& x) {
    // A matrix that a batch shares is not repeated: MatMul broadcasts.
    const Value &a = value(x.inputs()[0]), &b = value(x.inputs()[1]);
    const auto is_whole = [](const Value& found, const Tensor& of) { return found.shape == of.shape(); };
    const auto is_matrix = [](const Value& found, const Tensor& of) {
      return found.shape[-1] == of.shape()[-1] && found.shape[-2] == of.shape()[-2];
    };
    const bool broadcasts = (is_whole(a, x.inputs()[0]) && is_matrix(b, x.inputs()[1])) ||
                            (is_matrix(a, x.inputs()[0]) && is_whole(b, x.inputs()[1]));
    if (broadcasts) return graph_.add("MatMul", {a.name, b.name});
    return graph_.add("MatMul", {full(x.inputs()[0]), full(x.inputs()[1])});
  }

  std::string add(const Reduce& op, const Tensor& x) {
    const std::string from = full(x.inputs()[0]);
    const Sizes axes = wide(op.axes);
    const auto reduced = [&](const char* name) { return graph_.add(name, {from}, {{"axes", axes}}); };
    const auto position = [&](const char* name) {
      check(axes.size() == 1, "onnx: ", name, " over several axes, which ONNX does not support");
      const std::string index = graph_.add(name, {from}, {{"axis", axes[0]}});
      return graph_.add("Cast", {index}, {{"to", std::int64_t{static_cast<int>(OnnxType::i32)}}});
    };
    const auto summed = [&](const std::string& values) {
      return graph_.add("ReduceSum", {values, graph_.numbers(axes)});
    };
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
    const std::string distance = graph_.add("Sub", {from, reduced("ReduceMean")});
    return summed(graph_.add("Mul", {distance, distance}));
  }

  std::string add(const Reshape&, const Tensor& x) {
    const Shape& from = x.inputs()[0].shape();
    Sizes sizes = x.shape().sizes();
    const bool keeps_batch = !sizes.empty() && sizes[0] == kBatch && from.rank() > 0 && from[0] == kBatch;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] % kBatch != 0 || sizes[i] == 0) continue;
      sizes[i] = i == 0 && keeps_batch ? 0 : -1;
    }
    return graph_.add("Reshape", {full(x.inputs()[0]), graph_.numbers(sizes)});
  }
  std::string add(const Permute& op, const Tensor& x) {
    return graph_.add("Transpose", {full(x.inputs()[0])}, {{"perm", wide(op.order)}});
  }
  std::string add(const Concat& op, const Tensor& x) {
    std::vector<std::string> parts;
    for (const Tensor& input : x.inputs()) parts.push_back(full(input));
    return graph_.add("Concat", parts, {{"axis", std::int64_t{op.axis}}});
  }
  std::string add(const Slice& op, const Tensor& x) {
    Sizes starts, ends, axes, steps;
    const Shape& from = x.inputs()[0].shape();
    for (int axis = 0; axis < x.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      if (op.start[at] == 0 && op.step[at] == 1 && x.shape()[axis] == from[axis]) continue;
      check(from[axis] != kBatch, "onnx: the model takes single samples out of a batch");
      const std::int64_t end = op.start[at] + x.shape()[axis] * op.step[at];
      starts.push_back(op.start[at]);
      ends.push_back(end < 0 ? std::numeric_limits<std::int64_t>::min() : end);
      axes.push_back(axis);
      steps.push_back(op.step[at]);
    }
    return graph_.add("Slice", {full(x.inputs()[0]), graph_.numbers(starts), graph_.numbers(ends), graph_.numbers(axes),
                                graph_.numbers(steps)});
  }
  std::string add(const Pad& op, const Tensor& x) {
    Sizes pads = op.low;
    pads.insert(pads.end(), op.high.begin(), op.high.end());
    return graph_.add("Pad", {full(x.inputs()[0]), graph_.numbers(pads), graph_.number(op.value, x.dtype())});
  }
  std::string add(const Gather& op, const Tensor& x) {
    return graph_.add("Gather", {full(x.inputs()[0]), full(x.inputs()[1])}, {{"axis", std::int64_t{op.axis}}});
  }
  std::string add(const Scatter&, const Tensor&) {
    fail(Fault::usage, "onnx: the model scatters, which the export does not support");
  }
  std::string add(const Random&, const Tensor&) {
    fail(Fault::usage, "onnx: the model draws random numbers in evaluation, which the export does not support");
  }

  std::string add(const Pool& op, const Tensor& x) {
    check(op.role == PoolRole::output,
          "onnx: the model reads the positions of maxima, which the export does not support");
    if (op.window[0] == 1 && op.stride[0] == 1 && op.pad[0] == 0)
      return pool(op, full(x.inputs()[0]), x.inputs()[0].shape(), x.shape(), 1);
    // Windows over channels: channels become an axis of the image; axes without windows become one.
    const Shape& from = x.inputs()[0].shape();
    const bool channels_only = std::all_of(op.window.begin() + 1, op.window.end(), [](int size) { return size == 1; });
    Sizes sizes = {0, 1};
    Pool image = op;
    if (channels_only) {
      sizes.insert(sizes.end(), {from[1], -1});
      image.window = {op.window[0], 1}, image.stride = {op.stride[0], 1}, image.pad = {op.pad[0], 0};
    } else {
      sizes.insert(sizes.end(), from.begin() + 1, from.end());
    }
    const auto shape_of = [&](const Shape& shape) {  // its spatial sizes as the image has them
      Sizes all = {kBatch, 1, shape[1]};
      if (channels_only)
        all.push_back(shape.size() / (shape[0] * shape[1]));
      else
        all.insert(all.end(), shape.begin() + 2, shape.end());
      return Shape(all);
    };
    const std::string images = graph_.add("Reshape", {full(x.inputs()[0]), graph_.numbers(sizes)});
    const std::string pooled = pool(image, images, shape_of(from), shape_of(x.shape()), 0);
    Sizes back = x.shape().sizes();
    back[0] = 0;
    return graph_.add("Reshape", {pooled, graph_.numbers(back)});
  }

  /// The windows of `op` from axis `first` of its lists on.
  std::string pool(const Pool& op, const std::string& input, const Shape& from, const Shape& to, std::size_t first) {
    Sizes window, stride, low, high;
    for (std::size_t i = first; i < op.window.size(); ++i) {
      const int axis = static_cast<int>(i - first) + 2;
      window.push_back(op.window[i]);
      stride.push_back(op.stride[i]);
      low.push_back(op.pad[i]);
      // The last window ends where the node's shape says.
      high.push_back(std::max<std::int64_t>(0, (to[axis] - 1) * op.stride[i] + op.window[i] - from[axis] - op.pad[i]));
    }
    low.insert(low.end(), high.begin(), high.end());
    OnnxAttributes attributes = {{"kernel_shape", window}, {"strides", stride}, {"pads", low}};
    if (op.kind == PoolKind::max) return graph_.add("MaxPool", {input}, attributes);
    attributes.push_back({"count_include_pad", std::int64_t{op.count_pad}});
    return graph_.add("AveragePool", {input}, attributes);
  }

  OnnxOptions options_;
  OnnxGraph graph_;
  Tensor images_, output_;
  std::unordered_map<const Node*, int> uses_;
  std::unordered_map<const Node*, Value> values_;
  std::vector<Tensor> kept_;  // nodes made on the way stay alive, and so their addresses
  std::unordered_map<const VariableState*, std::string> variables_;
  std::set<std::string> names_;  // of constants
  std::string batch_;
  int constants_ = 0;
};

}  // namespace

std::string onnx_bytes(const Model& model, const OnnxOptions& options) { return Exporter(model, options).bytes(); }

void save_onnx(const Model& model, const std::filesystem::path& path, const OnnxOptions& options) {
  const std::string bytes = onnx_bytes(model, options);
  PendingFile file(path, static_cast<std::int64_t>(bytes.size()));
  file.write(std::as_bytes(std::span(bytes)));
  file.sync();
  file.publish();
}

}  // namespace nixie
