// StageBuilder: writes the instructions of a kernel's stages.
#include "nixie/core/passes/stage_builder.h"

#include <algorithm>
#include <cmath>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/passes/view.h"

namespace nixie {
namespace {

Dtype natural_type(const Tensor& x) { return compute_dtype(x.dtype()); }

bool is_narrow(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16 || is_f8(dtype); }
Primitive rounding_to(Dtype narrow) {
  if (narrow == Dtype::f8e4m3) return Primitive::round_f8e4m3;
  if (narrow == Dtype::f8e5m2) return Primitive::round_f8e5m2;
  return narrow == Dtype::f16 ? Primitive::round_f16 : Primitive::round_bf16;
}

// Whether the unit is a cast to a float of 16 or 8 bits, which rounds even what stays in a register.
bool is_rounded_cast(const FusionNode& unit) {
  return unit.kind == FusionNode::Kind::map && has_result(unit.value, ResultType::cast) &&
         is_narrow(unit.value.dtype());
}

}  // namespace

StageBuilder::StageBuilder(KernelBuilder& builder, const FusedGroup& group, Kernel& kernel)
    : builder_(builder), group_(group), kernel_(kernel), members_(group.units.begin(), group.units.end()) {}

bool StageBuilder::kept(int u) const {
  const FusionNode& unit = builder_.unit(u);
  return unit.kind == FusionNode::Kind::reduce || (unit.domain != group_.domain && !group_.reduced.empty());
}

// The unit of an input, or of the value that it repeats.
int StageBuilder::unit_read(const Tensor& x) const { return builder_.units_.of(is_a<Expand>(x) ? x.inputs()[0] : x); }

// How many reductions must be finished before a unit's value can be computed.
int StageBuilder::level(int u) {
  if (const auto found = levels_.find(u); found != levels_.end()) return found->second;
  int deepest = 0;
  const FusionNode& unit = builder_.unit(u);
  if (unit.kind != FusionNode::Kind::head)
    for (const Tensor& x : unit.inputs())
      if (const int input = unit_read(x); inside(input)) deepest = std::max(deepest, level(input));
  return levels_[u] = deepest + (unit.kind == FusionNode::Kind::reduce ? 1 : 0);
}

// Whether a kept value is read by a full stage or by a later kept one.
bool StageBuilder::needed_later(int u) {
  for (int user : group_.units) {
    if (user == u || (kept(user) && level(user) == level(u))) continue;
    if (std::ranges::any_of(builder_.unit(user).inputs(), [&](const Tensor& x) { return unit_read(x) == u; }))
      return true;
  }
  return false;
}

void StageBuilder::run() {
  int last = 0;
  for (int u : group_.units) last = std::max(last, level(u));
  for (int at = 0; at <= last; ++at) {
    stage(at, false);
    stage(at, true);
  }
}

void StageBuilder::stage(int at, bool full) {
  Stage stage{.full = full};
  stage_ = &stage;
  registers_.clear();
  for (int u : group_.units) {
    const FusionNode& unit = builder_.unit(u);
    const bool stored = builder_.stored_[static_cast<std::size_t>(u)];
    if (full && unit.kind == FusionNode::Kind::reduce && level(u) == at + 1) {
      const Tensor& x = unit.value.inputs()[0];
      const auto kind = std::get<Reduce>(unit.value.node().op).kind;
      const int reg = value(x, gives_position(kind) ? natural_type(x) : natural_type(unit.value));
      stage.reductions.push_back({kind, reg, carry(u)});
    }
    if (kept(u) == full || level(u) != at) continue;
    if (!full && unit.kind == FusionNode::Kind::map && needed_later(u)) {
      const int reg = unit_value(u);
      stage.carries.push_back({reg, carry(u)});
    }
    if (!stored) continue;
    // A store rounds to the slot's type by itself.
    const bool rounds = is_rounded_cast(unit) && !registers_.count(u);
    const int reg = rounds ? map_value(unit.value) : unit_value(u);
    auto store = [&](const KernelBuilder::Written& target) {
      stage.stores.push_back({reg, static_cast<int>(kernel_.stores.size())});
      kernel_.stores.push_back(builder_.access(target, kernel_));
    };
    store(builder_.written(u));
    if (const auto extra = builder_.extra_.find(u); extra != builder_.extra_.end())
      for (int slot : extra->second)
        store({slot, whole(unit.value.shape(), builder_.strides_in(slot, unit.value.shape()))});
  }
  if (!stage.stores.empty() || !stage.reductions.empty() || !stage.carries.empty())
    kernel_.stages.push_back(std::move(stage));
  stage_ = nullptr;
}

// A new carried value, which is the unit's for later stages.
int StageBuilder::carry(int u) {
  kernel_.carried.push_back(plan_dtype(natural_type(builder_.unit(u).value)));
  return carried_[u] = static_cast<int>(kernel_.carried.size()) - 1;
}

int StageBuilder::emit(Instruction instruction) {
  instruction.type = plan_dtype(instruction.type);
  auto& body = stage_->body;
  const auto same = std::ranges::find(body, instruction);
  if (same != body.end()) return static_cast<int>(same - body.begin());
  body.push_back(instruction);
  return static_cast<int>(body.size()) - 1;
}

int StageBuilder::number(double value, Dtype type) {
  return emit({.primitive = Primitive::constant, .type = type, .value = value});
}

int StageBuilder::apply(Primitive primitive, Dtype type, int a, int b, int c) {
  return emit({.primitive = primitive, .type = type, .args = {a, b, c}});
}

int StageBuilder::convert(int reg, Dtype type) {
  const Instruction& from = stage_->body[at(reg)];
  if (from.type == type) return reg;
  if (from.primitive == Primitive::cast) {  // 1 and 0 survive a trip through integers: take what was there before
    const Instruction& before = stage_->body[at(from.args[0])];
    if (is_boolean(before.primitive)) return convert(from.args[0], type);
  }
  return apply(Primitive::cast, type, reg);
}

// The number of one type as that of another, saturating; that of u64 is in a register of i64.
int StageBuilder::convert(int reg, Dtype from, Dtype to) {
  if (from == Dtype::u64 && to != from && type_of(reg) == Dtype::i64)
    reg = unsigned_.to(reg, is_floating(to) ? to : Dtype::i64);
  if (to != Dtype::u64 || from == to) return convert(reg, plan_dtype(to));
  if (!is_floating(type_of(reg))) reg = convert(reg, Dtype::i64);
  return unsigned_.from(reg, type_of(reg));
}

// The number as an integer type of fewer bits holds it, so that it is the same whether or not it passes through memory:
// casts saturate, arithmetic wraps around, as in numpy.
int StageBuilder::narrowed(int reg, Dtype dtype, bool wraps) {
  const Dtype type = type_of(reg);
  const auto with = [&](Primitive primitive, double operand) {
    reg = apply(primitive, type, reg, number(operand, type));
  };
  const int bits = static_cast<int>(8 * size_of(dtype)), above = static_cast<int>(8 * size_of(type)) - bits;
  const double values = std::ldexp(1, bits);
  if (above == 0) return reg;
  if (!wraps) {
    with(Primitive::max, is_unsigned(dtype) ? 0 : -values / 2);
    with(Primitive::min, is_unsigned(dtype) ? values - 1 : values / 2 - 1);
  } else if (is_unsigned(dtype)) {
    with(Primitive::bit_and, values - 1);
  } else {
    with(Primitive::shift_left, above);
    with(Primitive::shift_right, above);
  }
  return reg;
}

// Whether the number is other than 0, before it is converted: 0.5 is true. ~ of a bool flips it.
int StageBuilder::as_bool(int reg, ResultType result) {
  if (is_boolean(stage_->body[at(reg)].primitive)) return reg;
  const bool bits = result == ResultType::integer;
  const Dtype type = type_of(reg);
  const int other = number(bits ? 1 : 0, type);
  return apply(bits ? Primitive::bit_and : Primitive::not_equal, type, reg, other);
}

// A number as its type of 16 or 8 bits holds it, if it may have more digits than f32, by way of which it would be
// rounded twice: a double, or an integer (those that f32 does not hold are beyond all of these types but bf16).
int StageBuilder::rounded_once(int reg, const Tensor& half) {
  const Dtype from = half.inputs()[0].dtype(), type = type_of(reg);
  const bool is_integer = !is_floating(from) && size_of(from) >= 4 && half.dtype() == Dtype::bf16;
  if (type == Dtype::f32 || (from != Dtype::f64 && !is_integer)) return reg;
  if (type == Dtype::i64) reg = odd_where_cut(reg);
  const int wide = convert(reg, from, Dtype::f64);
  return apply(rounding_to(half.dtype()), Dtype::f64, wide);
}

// The same for a double: a large integer without its last 16 bits, the one before them set if any of them is.
int StageBuilder::odd_where_cut(int reg) {
  const auto number = [&](double value) { return this->number(value, Dtype::i64); };
  const auto apply = [&](Primitive primitive, int a, int b, int c = -1) {
    return this->apply(primitive, Dtype::i64, a, b, c);
  };
  const int any = apply(Primitive::not_equal, apply(Primitive::bit_and, reg, number(0xffff)), number(0));
  const int above = apply(Primitive::bit_and, reg, number(-0x1p16));
  const int cut = apply(Primitive::bit_or, above, apply(Primitive::shift_left, any, number(16)));
  return apply(Primitive::select, apply(Primitive::less, apply(Primitive::abs, reg, -1), number(0x1p32)), reg, cut);
}

int StageBuilder::value(const Tensor& x, Dtype type) {
  const bool is_number = is_a<Constant>(x);
  return convert(natural(x, type), is_number ? type : x.dtype(), type);
}

int StageBuilder::natural(const Tensor& x, Dtype wanted) {
  if (const auto* constant = op_as<Constant>(x)) {
    const auto scalar = builder_.scalar_of_.find(x.id());
    const bool is_wide = wanted == Dtype::u64;
    if (scalar != builder_.scalar_of_.end())
      return is_wide ? unsigned_.scalar(scalar->second)
                     : emit({.primitive = Primitive::scalar, .type = wanted, .index = scalar->second});
    return number(is_wide ? bits_of_u64(constant->value) : constant->value, wanted);
  }
  const int u = builder_.units_.of(x);
  if (inside(u)) return unit_value(u);
  const int below = is_a<Expand, Reshape>(x) ? builder_.units_.of(x.inputs()[0]) : -1;
  if (!inside(below)) return load(x);
  if (is_a<Expand>(x)) return carried(below);
  // A reshape of the kernel's head is read from its register.
  return builder_.unit(below).kind == FusionNode::Kind::head ? unit_value(below) : load(x);
}

int StageBuilder::carried(int u) {
  return emit({.primitive = Primitive::carried, .type = natural_type(builder_.unit(u).value), .index = carried_.at(u)});
}

int StageBuilder::unit_value(int u) {
  if (const auto found = registers_.find(u); found != registers_.end()) return found->second;
  const FusionNode& unit = builder_.unit(u);
  // Reductions, and kept values of earlier stages, are carried; full values are computed again where they are needed.
  if (unit.kind == FusionNode::Kind::reduce || (!stage_->full && carried_.count(u))) return carried(u);
  const Dtype type = natural_type(unit.value);
  int reg = unit.kind == FusionNode::Kind::head   ? apply(Primitive::head, type, -1)
            : unit.kind == FusionNode::Kind::copy ? value(unit.value, type)
                                                  : map_value(unit.value);
  if (is_rounded_cast(unit)) reg = apply(rounding_to(unit.value.dtype()), Dtype::f32, reg);
  return registers_[u] = reg;
}

int StageBuilder::load(const Tensor& x) {
  Source source = builder_.units_.source(x);
  if (x.dtype() == Dtype::u64) source.view.fill = bits_of_u64(std::max(source.view.fill, 0.0));
  if (reads_nothing(source.view))  // positions that are kept exist where those of an empty domain do not
    return number(source.view.fill, natural_type(x));
  Access access = builder_.access({builder_.slot_of(source), source.view}, kernel_);
  auto& loads = kernel_.loads;
  auto found = std::ranges::find(loads, access);
  if (found == loads.end()) found = loads.insert(loads.end(), std::move(access));
  return emit(
      {.primitive = Primitive::load, .type = natural_type(x), .index = static_cast<int>(found - loads.begin())});
}

int StageBuilder::map_value(const Tensor& x) {
  if (const auto* coordinate = op_as<Coordinate>(x))
    return emit({.primitive = Primitive::coordinate, .type = Dtype::i32, .index = coordinate->axis});
  if (const auto* random = op_as<Random>(x)) {
    const Primitive primitive = random->kind == RandomKind::uniform ? Primitive::uniform : Primitive::normal;
    const int step = value(x.inputs()[0], Dtype::i32);
    return emit({.primitive = primitive,
                 .type = Dtype::f32,
                 .args = {step, -1, -1},
                 .value = static_cast<double>(random->first),
                 .stream = random->stream});
  }
  const ElementwiseInfo& info = *std::get<Map>(x.node().op).op;
  const Dtype type = map_compute_dtype(x.node());
  std::vector<int> registers;
  for (const Instruction& step : info.formula.body) {
    Instruction instruction = step;
    instruction.type = type;
    for (int& arg : instruction.args)
      if (arg >= 0) arg = registers[at(arg)];
    registers.push_back(step.primitive == Primitive::parameter ? value(x.inputs()[at(step.index)], type)
                        : type == Dtype::u64                   ? unsigned_.step(instruction)
                                                               : emit(instruction));
  }
  int reg = registers.back();
  const ResultType result = info.traits.result;
  const Dtype natural = natural_type(x);
  if (is_narrow(x.dtype())) reg = rounded_once(reg, x);
  if (x.dtype() == Dtype::boolean) return convert(as_bool(reg, result), natural);
  if (result == ResultType::wrapped && !is_floating(type)) {
    reg = narrowed(convert(reg, plan_dtype(size_of(type) > size_of(natural) ? type : natural)), x.dtype(), true);
    return convert(reg, plan_dtype(natural));
  }
  reg = convert(reg, type, natural);
  const bool saturates = result == ResultType::cast || result == ResultType::retyped;
  return is_floating(x.dtype()) ? reg : narrowed(reg, x.dtype(), !saturates);
}

}  // namespace nixie
