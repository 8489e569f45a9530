// Turns instructions into expressions.
#include "nixie/backends/cuda/generate/print.h"

#include <bit>
#include <cmath>
#include <map>

#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

template <class Float>
std::string decimal(Float value, const char* suffix) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += suffix;
  return std::signbit(value) ? "(" + text + ")" : text;
}

// The others are functions of math.cuh by their names.
const std::map<Primitive, const char*> kInfix{
    {Primitive::add, "+"},     {Primitive::sub, "-"},        {Primitive::mul, "*"},    {Primitive::div, "/"},
    {Primitive::equal, "=="},  {Primitive::not_equal, "!="}, {Primitive::less, "<"},   {Primitive::less_equal, "<="},
    {Primitive::bit_and, "&"}, {Primitive::bit_or, "|"},     {Primitive::bit_xor, "^"}};

}  // namespace

std::string type_name(Dtype dtype) { return std::string(to_string(dtype)); }

std::string literal(double value, Dtype type) {
  if (type == Dtype::i64) {
    const std::int64_t number = convert<std::int64_t>(value);
    if (number == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807LL - 1)";
    return number < 0 ? fmt::format("({}LL)", number) : fmt::format("{}LL", number);
  }
  if (type == Dtype::i32) {
    const std::int32_t number = convert<std::int32_t>(value);
    if (number == std::numeric_limits<std::int32_t>::min()) return "(-2147483647 - 1)";
    return number < 0 ? fmt::format("({})", number) : fmt::format("{}", number);
  }
  if (type == Dtype::f64)
    return std::isfinite(value) ? decimal(value, "")
                                : fmt::format("__longlong_as_double({:#x}LL)", std::bit_cast<std::uint64_t>(value));
  const float single = static_cast<float>(value);
  return std::isfinite(single) ? decimal(single, "f")
                               : fmt::format("__uint_as_float({:#x}u)", std::bit_cast<std::uint32_t>(single));
}

std::string expression(const Instruction& in) {
  const std::string type = type_name(in.type);
  const auto reg = [&](int i) { return fmt::format("r{}", in.args[at(i)]); };
  switch (in.primitive) {
    case Primitive::constant:
      return literal(in.value, in.type);
    case Primitive::cast:
      return fmt::format("convert<{}>({})", type, reg(0));
    case Primitive::neg:
      return is_floating(in.type) ? "-" + reg(0) : fmt::format("op::neg({})", reg(0));
    case Primitive::equal:
    case Primitive::not_equal:
    case Primitive::less:
    case Primitive::less_equal:
      return fmt::format("static_cast<{}>({} {} {})", type, reg(0), kInfix.at(in.primitive), reg(1));
    case Primitive::logical_and:
      return fmt::format("static_cast<{}>({} != 0 && {} != 0)", type, reg(0), reg(1));
    case Primitive::logical_or:
      return fmt::format("static_cast<{}>({} != 0 || {} != 0)", type, reg(0), reg(1));
    case Primitive::logical_not:
      return fmt::format("static_cast<{}>({} == 0)", type, reg(0));
    case Primitive::is_finite:
    case Primitive::is_nan:
      return fmt::format("static_cast<{}>(op::{}({}))", type, to_string(in.primitive), reg(0));
    case Primitive::select:
      return fmt::format("{} != 0 ? {} : {}", reg(0), reg(1), reg(2));
    case Primitive::bit_not:
      return "~" + reg(0);
    case Primitive::add:
    case Primitive::sub:
    case Primitive::mul:
    case Primitive::div:
      if (!is_floating(in.type)) break;
      [[fallthrough]];
    case Primitive::bit_and:
    case Primitive::bit_or:
    case Primitive::bit_xor:
      return fmt::format("{} {} {}", reg(0), kInfix.at(in.primitive), reg(1));
    default:  // a function of its registers
      break;
  }
  check(arity(in.primitive) > 0, "codegen: ", to_string(in.primitive), " is no arithmetic");
  std::string args = reg(0);
  for (int i = 1; i < arity(in.primitive); ++i) args += ", " + reg(i);
  return fmt::format("op::{}({})", to_string(in.primitive), args);
}

std::string approximate_quotient(const Instruction& in) {
  return fmt::format("op::approximate_div(r{}, r{})", in.args[0], in.args[1]);
}

}  // namespace nixie::cuda
