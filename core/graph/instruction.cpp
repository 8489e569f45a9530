// The table of primitives.
#include "nixie/core/graph/instruction.h"

namespace nixie {
namespace {

struct Row {
  std::string_view name;
  int arity;
  bool is_boolean, is_cheap;
};
// Name, registers read, boolean, cheap.
constexpr Row kRows[] = {
    {"parameter", 0, false, true},    {"constant", 0, false, true},    {"scalar", 0, false, false},
    {"load", 0, false, false},        {"carried", 0, false, false},    {"head", 0, false, false},
    {"coordinate", 0, false, false},  {"uniform", 1, false, false},    {"normal", 1, false, false},
    {"cast", 1, false, true},         {"neg", 1, false, true},         {"abs", 1, false, true},
    {"add", 2, false, true},          {"sub", 2, false, true},         {"mul", 2, false, true},
    {"div", 2, false, true},          {"mod", 2, false, false},        {"pow", 2, false, false},
    {"min", 2, false, true},          {"max", 2, false, true},         {"equal", 2, true, true},
    {"not_equal", 2, true, true},     {"less", 2, true, true},         {"less_equal", 2, true, true},
    {"logical_and", 2, true, true},   {"logical_or", 2, true, true},   {"logical_not", 1, true, true},
    {"select", 3, false, true},       {"is_finite", 1, true, false},   {"is_nan", 1, true, false},
    {"sqrt", 1, false, false},        {"rsqrt", 1, false, false},      {"exp", 1, false, true},
    {"exp2", 1, false, false},        {"expm1", 1, false, false},      {"log", 1, false, false},
    {"log2", 1, false, false},        {"log1p", 1, false, false},      {"sin", 1, false, false},
    {"cos", 1, false, false},         {"tan", 1, false, false},        {"asin", 1, false, false},
    {"acos", 1, false, false},        {"atan", 1, false, false},       {"atan2", 2, false, false},
    {"sinh", 1, false, false},        {"cosh", 1, false, false},       {"tanh", 1, false, false},
    {"erf", 1, false, false},         {"erfc", 1, false, false},       {"floor", 1, false, false},
    {"ceil", 1, false, false},        {"round", 1, false, false},      {"trunc", 1, false, false},
    {"round_f16", 1, false, false},   {"round_bf16", 1, false, false}, {"round_f8e4m3", 1, false, true},
    {"round_f8e5m2", 1, false, true}, {"binade", 1, false, true},      {"copysign", 2, false, true},
    {"bit_and", 2, false, false},     {"bit_or", 2, false, false},     {"bit_xor", 2, false, false},
    {"bit_not", 1, false, false},     {"shift_left", 2, false, false}, {"shift_right", 2, false, false},
};
static_assert(std::size(kRows) == static_cast<std::size_t>(Primitive::shift_right) + 1);

const Row& row(Primitive primitive) { return kRows[static_cast<std::size_t>(primitive)]; }

}  // namespace

int arity(Primitive primitive) { return row(primitive).arity; }
std::string_view to_string(Primitive primitive) { return row(primitive).name; }
bool is_boolean(Primitive primitive) { return row(primitive).is_boolean; }
bool is_cheap(Primitive primitive) { return row(primitive).is_cheap; }

}  // namespace nixie
