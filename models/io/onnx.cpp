// The graph of an evaluation, node by node.
#include "nixie/models/io/onnx.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <unordered_map>

#include "nixie/core/graph/storage.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/models/io/durable_file.h"
#include "nixie/models/io/onnx/formula.h"
#include "nixie/models/io/onnx/match.h"
#include "nixie/models/io/onnx/ops.h"

namespace nixie {
namespace {

constexpr std::size_t kMaxBytes = (std::size_t{1} << 31) - 1;  // of a protobuf message
constexpr int kIrVersion = 8, kOpset = 17;

using Sizes = std::vector<std::int64_t>;

class Exporter {
 public:
  Exporter(const Model& model, const OnnxOptions& options) : options_(options) {
    Sizes input = {kOnnxBatch};
    for (const std::int64_t size : model.input_shape()) input.push_back(size);
    images_ = placeholder(Shape(input));
    Trace trace;
    const Tensor output = model(images_, Pass{.training = false});
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
    for (std::int64_t& size : sizes) size = size == kOnnxBatch ? -1 : size;
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
    if (std::count(shape.begin(), shape.end(), kOnnxBatch) == 0) return graph_.numbers(shape.sizes());
    if (batch_.empty())
      batch_ = graph_.add("Shape", {options_.input}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
    std::vector<std::string> parts;
    for (const std::int64_t size : shape) parts.push_back(size == kOnnxBatch ? batch_ : graph_.numbers({size}));
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
    check(size != kOnnxBatch, "onnx: the model counts samples, which a file with a free batch cannot");
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
    if (const auto* conv = as<Conv>(match.product)) return add_op(graph_, *conv, match.product, inputs);
    return graph_.add("Gemm", inputs, {{"transB", std::int64_t{1}}});
  }

  // ---- ops ----

  template <class Op>
  std::string add(const Op& op, const Tensor& x) {
    std::vector<std::string> inputs;
    for (const Tensor& input : x.inputs()) inputs.push_back(full(input));
    return add_op(graph_, op, x, inputs);
  }
  std::string add(const RoundedProduct&, const Tensor&) {
    fail(Fault::usage,
         "onnx: sums of products are rounded (formats: sums), which ONNX has not; export without formats");
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
    const char* op = x.dtype() == x.inputs()[0].dtype() ? "MatMul" : "MatMulInteger";  // bytes give i32
    if (broadcasts) return graph_.add(op, {a.name, b.name});
    return graph_.add(op, {full(x.inputs()[0]), full(x.inputs()[1])});
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
