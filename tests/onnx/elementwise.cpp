// ONNX's elementwise ops.
#include <cmath>
#include <numbers>

#include "nixie/tests/onnx/node.h"

namespace nixie::onnx_nodes {
namespace {

Tensor gelu_by_tanh(const Tensor& x) {
  return 0.5 * x * (1 + tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

// ONNX divides integers towards zero.
Tensor divide(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) return a / b;
  return floor_divide(abs(a), abs(b)) * sign(a) * sign(b);
}

Tensor clip_of(const Node& node) {
  Tensor x = node.in(0);
  const bool has_attributes = node.opset() < 11;
  if (has_attributes ? node.has("min") : node.has(1))
    x = maximum(x, has_attributes ? Tensor(node.number("min", 0)) : node.in(1));
  if (has_attributes ? node.has("max") : node.has(2))
    x = minimum(x, has_attributes ? Tensor(node.number("max", 0)) : node.in(2));
  return x + Tensor(0);
}

Tensor is_infinite(const Node& node) {
  const Tensor& x = node.in(0);
  Tensor found = is_inf(x);
  if (!node.integer("detect_negative", 1)) found = found && x > 0;
  if (!node.integer("detect_positive", 1)) found = found && x < 0;
  return found;
}

Tensor shrink(const Node& node) {
  const Tensor& x = node.in(0);
  const double lambda = node.number("lambd", 0.5), bias = node.number("bias", 0);
  return cast(where(x < -lambda, x + bias, where(x > lambda, x - bias, 0)), x.dtype());
}

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

const std::map<std::string, Unary> kUnary = {
    {"Abs", abs},
    {"Acos", acos},
    {"Asin", asin},
    {"Atan", atan},
    {"Ceil", ceil},
    {"Cos", cos},
    {"Cosh", cosh},
    {"Erf", erf},
    {"Exp", exp},
    {"Floor", floor},
    {"IsNaN", is_nan},
    {"Log", log},
    {"Reciprocal", reciprocal},
    {"Round", round},
    {"Sigmoid", sigmoid},
    {"Sign", sign},
    {"Sin", sin},
    {"Sinh", sinh},
    {"Softplus", softplus},
    {"Sqrt", sqrt},
    {"Tan", tan},
    {"Tanh", tanh},
    {"Neg", [](const Tensor& x) { return -x; }},
    {"Not", [](const Tensor& x) { return !x; }},
    {"BitwiseNot", [](const Tensor& x) { return ~x; }},
    {"Identity", [](const Tensor& x) { return x; }},
    {"Relu", [](const Tensor& x) { return relu(x); }},
    {"Acosh", [](const Tensor& x) { return log(x + sqrt(x * x - 1)); }},
    {"Asinh", [](const Tensor& x) { return log(x + sqrt(x * x + 1)); }},
    {"Atanh", [](const Tensor& x) { return 0.5 * (log1p(x) - log1p(-x)); }},
    {"Softsign", [](const Tensor& x) { return x / (1 + abs(x)); }},
    {"Mish", [](const Tensor& x) { return x * tanh(softplus(x)); }},
    {"HardSwish", [](const Tensor& x) { return x * clip(x / 6 + 0.5, 0, 1); }},
};

const std::map<std::string, Binary> kBinary = {
    {"Add", operator+ },
     {"Sub", operator- },
      {"Mul", operator* }, {"Div", divide},
       {"Equal", operator== },
        {"Greater", operator> },
         {"GreaterOrEqual", operator>= },
          {"Less", operator<},
           {"LessOrEqual", operator<= }, {"And", logical_and}, {"Or", logical_or},
            {"Xor", [](const Tensor& a, const Tensor& b) { return a != b; }},
            {"BitwiseAnd", operator& },
             {"BitwiseOr", operator| },
              {
                  "BitwiseXor",
                  operator^ },
                  {"Pow", [](const Tensor& a, const Tensor& b) { return cast(pow(a, b), a.dtype()); }},
                  {"PRelu", [](const Tensor& x, const Tensor& slope) { return relu(x, slope); }},
             };

const std::map<std::string, Binary> kVariadic = {{"Max", maximum}, {"Min", minimum},
                                                 {"Sum", operator+ }, {"Mean", operator+ } };

}  // namespace

void add_elementwise(Functions& functions) {
  for (const auto& [name, function] : kUnary)
    functions[name] = [f = function](const Node& node) { return Results{f(node.in(0))}; };
  for (const auto& [name, function] : kBinary)
    functions[name] = [f = function](const Node& node) { return Results{f(node.in(0), node.in(1))}; };
  for (const auto& [name, function] : kVariadic)
    functions[name] = [f = function](const Node& node) {
      Tensor x = node.in(0);
      for (std::size_t i = 1; i < node.size(); ++i) x = f(x, node.in(i));
      return Results{node.op() == "Mean" ? x / static_cast<double>(node.size()) : x};
    };
  functions["Where"] = [](const Node& node) { return Results{where(node.in(0), node.in(1), node.in(2))}; };
  functions["Clip"] = [](const Node& node) { return Results{clip_of(node)}; };
  functions["IsInf"] = [](const Node& node) { return Results{is_infinite(node)}; };
  functions["Shrink"] = [](const Node& node) { return Results{shrink(node)}; };
  functions["Mod"] = [](const Node& node) {
    return Results{node.integer("fmod", 0) ? fmod(node.in(0), node.in(1)) : remainder(node.in(0), node.in(1))};
  };
  functions["BitShift"] = [](const Node& node) {
    const bool left = node.text("direction", "") == "LEFT";
    return Results{left ? node.in(0) << node.in(1) : node.in(0) >> node.in(1)};
  };
  functions["Cast"] = [](const Node& node) {
    return Results{cast(node.in(0), dtype_of_number(node.integer("to", 0)))};
  };
  functions["CastLike"] = [](const Node& node) { return Results{cast(node.in(0), node.in(1).dtype())}; };
  functions["Elu"] = [](const Node& node) { return Results{elu(node.in(0), node.number("alpha", 1))}; };
  functions["Celu"] = [](const Node& node) {
    const double alpha = node.number("alpha", 1);
    return Results{alpha * elu(node.in(0) / alpha)};
  };
  functions["Selu"] = [](const Node& node) {
    return Results{node.number("gamma", 1.05070102214813232421875) *
                   elu(node.in(0), node.number("alpha", 1.67326319217681884765625))};
  };
  functions["LeakyRelu"] = [](const Node& node) { return Results{relu(node.in(0), node.number("alpha", 0.01))}; };
  functions["Gelu"] = [](const Node& node) {
    return Results{node.text("approximate", "none") == "tanh" ? gelu_by_tanh(node.in(0)) : gelu(node.in(0))};
  };
  functions["HardSigmoid"] = [](const Node& node) {
    return Results{clip(node.number("alpha", 0.2) * node.in(0) + node.number("beta", 0.5), 0, 1)};
  };
  functions["Swish"] = [](const Node& node) {
    return Results{node.in(0) * sigmoid(node.number("alpha", 1) * node.in(0))};
  };
  functions["ThresholdedRelu"] = [](const Node& node) {
    return Results{where(node.in(0) > node.number("alpha", 1), node.in(0), 0)};
  };
  functions["Binarizer"] = [](const Node& node) {
    return Results{cast(node.in(0) > node.number("threshold", 0), node.in(0).dtype())};
  };
}

}  // namespace nixie::onnx_nodes
