// The table of primitives.
#include "nixie/core/graph/instruction.h"

namespace nixie {
namespace {

struct Row {
  std::string_view name;
  int arity;
};
constexpr Row kRows[] = {
    {"parameter", 0},   {"constant", 0},   {"scalar", 0},      {"load", 0},      {"carried", 0},   {"head", 0},
    {"coordinate", 0},  {"uniform", 1},    {"normal", 1},      {"cast", 1},      {"neg", 1},       {"abs", 1},
    {"add", 2},         {"sub", 2},        {"mul", 2},         {"div", 2},       {"mod", 2},       {"pow", 2},
    {"min", 2},         {"max", 2},        {"equal", 2},       {"not_equal", 2}, {"less", 2},      {"less_equal", 2},
    {"logical_and", 2}, {"logical_or", 2}, {"logical_not", 1}, {"select", 3},    {"is_finite", 1}, {"is_nan", 1},
    {"sqrt", 1},        {"rsqrt", 1},      {"exp", 1},         {"exp2", 1},      {"expm1", 1},     {"log", 1},
    {"log2", 1},        {"log1p", 1},      {"sin", 1},         {"cos", 1},       {"tan", 1},       {"asin", 1},
    {"acos", 1},        {"atan", 1},       {"atan2", 2},       {"sinh", 1},      {"cosh", 1},      {"tanh", 1},
    {"erf", 1},         {"floor", 1},      {"ceil", 1},        {"round", 1},     {"trunc", 1},     {"round_f16", 1},
    {"round_bf16", 1},  {"bit_and", 2},    {"bit_or", 2},      {"bit_xor", 2},   {"bit_not", 1},   {"shift_left", 2},
    {"shift_right", 2},
};
static_assert(std::size(kRows) == static_cast<std::size_t>(Primitive::shift_right) + 1);

const Row& row(Primitive primitive) { return kRows[static_cast<std::size_t>(primitive)]; }

}  // namespace

int arity(Primitive primitive) { return row(primitive).arity; }
std::string_view to_string(Primitive primitive) { return row(primitive).name; }

}  // namespace nixie
