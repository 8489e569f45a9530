// Elementwise formulas as ONNX nodes; comparisons are ONNX's booleans until arithmetic or the result needs numbers.
#include "nixie/models/io/onnx/formula.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "nixie/core/ops/elementwise.h"

namespace nixie {
namespace {

/// The number of a node that is a Constant.
std::optional<double> number_of(const Tensor& x) {
  const auto* constant = std::get_if<Constant>(&x.node().op);
  return constant ? std::optional(constant->value) : std::nullopt;
}

class Formulas {
 public:
  Formulas(OnnxGraph& graph, const Node& map, const std::vector<std::string>& inputs)
      : graph_(graph), map_(map), info_(*std::get<Map>(map.op).op), inputs_(inputs), type_(map_compute_dtype(map)) {}

  std::string result() {
    if (const std::string name = by_name(); !name.empty()) return name;
    for (const Instruction& instruction : info_.formula.body) registers_.push_back(step(instruction));
    const Register& last = registers_.back();
    return is_boolean(last) || type_ != map_.dtype ? cast(last.name, onnx_type(map_.dtype)) : last.name;
  }

 private:
  struct Register {
    std::string name;
    bool boolean = false;
  };

  static bool is_boolean(const Register& value) { return value.boolean; }
  std::string cast(const std::string& name, OnnxType type) {
    return graph_.add("Cast", {name}, {{"to", std::int64_t{static_cast<int>(type)}}});
  }

  /// What ONNX has as one op; "" where it has none.
  std::string by_name() {
    const bool is_float = type_ == Dtype::f32 && map_.dtype == Dtype::f32 && map_.inputs[0].dtype() == Dtype::f32;
    if (!is_float) return {};
    static constexpr std::pair<const char*, const char*> kSame[] = {
        {"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}, {"softplus", "Softplus"}};
    for (const auto& [ours, theirs] : kSame)
      if (info_.name == ours) return graph_.add(theirs, inputs_);
    if (info_.name == "stop_gradient") return inputs_[0];
    if (info_.name != "leaky_relu" && info_.name != "elu") return {};
    const std::optional<double> alpha = number_of(map_.inputs[1]);
    if (!alpha) return {};
    return graph_.add(info_.name == "elu" ? "Elu" : "LeakyRelu", {inputs_[0]}, {{"alpha", static_cast<float>(*alpha)}});
  }

  Register step(const Instruction& i) {
    const auto named = [&](const char* op) {
      std::vector<std::string> names;
      for (int k = 0; k < arity(i.primitive); ++k) names.push_back(value(i, k));
      return Register{graph_.add(op, names)};
    };
    const auto compared = [&](const char* op) { return Register{named(op).name, true}; };
    const auto logic = [&](const char* op) {
      std::vector<std::string> names;
      for (int k = 0; k < arity(i.primitive); ++k) names.push_back(truth(i, k));
      return Register{graph_.add(op, names), true};
    };
    const auto node = [&](const char* op, const std::vector<std::string>& names) {
      return Register{graph_.add(op, names)};
    };
    switch (i.primitive) {
      case Primitive::parameter: {
        const auto at = static_cast<std::size_t>(i.index);
        const Tensor& input = map_.inputs[at];
        if (const auto number = number_of(input)) return {constant(*number)};
        return {input.dtype() == type_ ? inputs_[at] : cast(inputs_[at], onnx_type(type_))};
      }
      case Primitive::constant:
        return {constant(i.value)};
      case Primitive::neg:
        return named("Neg");
      case Primitive::abs:
        return named("Abs");
      case Primitive::add:
        return named("Add");
      case Primitive::sub:
        return named("Sub");
      case Primitive::mul:
        return named("Mul");
      case Primitive::div:
        return named("Div");
      case Primitive::mod:
        return {graph_.add("Mod", {value(i, 0), value(i, 1)}, {{"fmod", std::int64_t{1}}})};
      case Primitive::pow:
        return named("Pow");
      case Primitive::min:
        return named("Min");
      case Primitive::max:
        return named("Max");
      case Primitive::equal:
        return compared("Equal");
      case Primitive::not_equal:
        return {graph_.add("Not", {compared("Equal").name}), true};
      case Primitive::less:
        return compared("Less");
      case Primitive::less_equal:
        return compared("LessOrEqual");
      case Primitive::logical_and:
        return logic("And");
      case Primitive::logical_or:
        return logic("Or");
      case Primitive::logical_not:
        return logic("Not");
      case Primitive::select:
        return {graph_.add("Where", {truth(i, 0), value(i, 1), value(i, 2)})};
      case Primitive::is_finite:  // NaN is below no number
        return {
            graph_.add("Less", {graph_.add("Abs", {value(i, 0)}), constant(std::numeric_limits<float>::infinity())}),
            true};
      case Primitive::is_nan:
        return compared("IsNaN");
      case Primitive::round_f16:
        return {cast(cast(value(i, 0), onnx_type(Dtype::f16)), onnx_type(type_))};
      case Primitive::round_bf16:
        return {cast(cast(value(i, 0), onnx_type(Dtype::bf16)), onnx_type(type_))};
      case Primitive::sqrt:
        return named("Sqrt");
      case Primitive::rsqrt:
        return node("Reciprocal", {named("Sqrt").name});
      case Primitive::exp:
        return named("Exp");
      case Primitive::exp2:
        return node("Pow", {constant(2), value(i, 0)});
      case Primitive::expm1:
        return node("Sub", {named("Exp").name, constant(1)});
      case Primitive::log:
        return named("Log");
      case Primitive::log2:
        return node("Mul", {named("Log").name, constant(std::numbers::log2e)});
      case Primitive::log1p:
        return node("Log", {graph_.add("Add", {value(i, 0), constant(1)})});
      case Primitive::sin:
        return named("Sin");
      case Primitive::cos:
        return named("Cos");
      case Primitive::tan:
        return named("Tan");
      case Primitive::asin:
        return named("Asin");
      case Primitive::acos:
        return named("Acos");
      case Primitive::atan:
        return named("Atan");
      case Primitive::sinh:
        return named("Sinh");
      case Primitive::cosh:
        return named("Cosh");
      case Primitive::tanh:
        return named("Tanh");
      case Primitive::erf:
        return named("Erf");
      case Primitive::erfc:
        return node("Sub", {constant(1), named("Erf").name});
      case Primitive::floor:
        return named("Floor");
      case Primitive::ceil:
        return named("Ceil");
      case Primitive::round:
        return named("Round");
      case Primitive::trunc:
        return {graph_.add("Where",
                           {graph_.add("Less", {value(i, 0), constant(0)}), named("Ceil").name, named("Floor").name})};
      case Primitive::scalar:
      case Primitive::load:
      case Primitive::carried:
      case Primitive::head:
      case Primitive::coordinate:
      case Primitive::uniform:
      case Primitive::normal:
      case Primitive::cast:
      case Primitive::atan2:
      case Primitive::binade:
      case Primitive::copysign:
      case Primitive::bit_and:
      case Primitive::bit_or:
      case Primitive::bit_xor:
      case Primitive::bit_not:
      case Primitive::shift_left:
      case Primitive::shift_right:
      case Primitive::round_f8e4m3:
      case Primitive::round_f8e5m2:
        break;
    }
    fail(Fault::usage, "onnx: ", info_.name, " needs ", to_string(i.primitive), ", which opset 17 has not");
  }

  std::string constant(double number) { return graph_.number(number, type_); }
  const Register& reg(const Instruction& i, int k) const {
    return registers_[static_cast<std::size_t>(i.args[static_cast<std::size_t>(k)])];
  }
  /// The k-th argument as a number of the formula's type.
  std::string value(const Instruction& i, int k) {
    const Register& of = reg(i, k);
    return of.boolean ? cast(of.name, onnx_type(type_)) : of.name;
  }
  /// The k-th argument as a boolean: whether it is not 0.
  std::string truth(const Instruction& i, int k) {
    const Register& of = reg(i, k);
    return of.boolean ? of.name : graph_.add("Not", {graph_.add("Equal", {of.name, constant(0)})});
  }

  OnnxGraph& graph_;
  const Node& map_;
  const ElementwiseInfo& info_;
  const std::vector<std::string>& inputs_;
  Dtype type_;
  std::vector<Register> registers_ = {};
};

}  // namespace

std::string add_formula(OnnxGraph& graph, const Node& map, const std::vector<std::string>& inputs) {
  return Formulas(graph, map, inputs).result();
}

}  // namespace nixie
